// SPDX-License-Identifier: GPL-2.0

//! Draws the figures of `make bench`: for each row a bar for each implementation measured; and what
//! `make lab` has seen over time.
//!
//! Usage: `oxe-chart BENCH.JSON DIRECTORY` writes bandwidth.svg and latency.svg there; `oxe-chart
//! --over-time CHARTS.JSON DIRECTORY` an SVG for each scenario.

mod over_time;

use plotters::coord::Shift;
use plotters::prelude::*;
use serde_json::Value;
use std::error::Error;
use std::path::Path;

const WIDTH: u32 = 900;
/// Pixels of a row, of the names left of the bars, of the legend above and of the axis below them.
const ROW: u32 = 40;
const NAMES: u32 = 260;
const HEAD: u32 = 40;
const FOOT: u32 = 50;

/// The bars of a row: the key of the figures, the label, the colour.
const BARS: [(&str, &str, RGBColor); 3] = [
    ("rxe", "rxe", RGBColor(160, 160, 160)),
    ("oxe", "oxe", RGBColor(200, 80, 30)),
    (
        "other",
        "TCP (wire), memcpy (loop)",
        RGBColor(110, 150, 200),
    ),
];

/// A row of the table: its name, and a figure for each of [`BARS`] that has one.
struct Row {
    name: String,
    figures: [Option<f64>; BARS.len()],
}

/// The rows with this unit, in the order of the file.
fn rows(results: &Value, unit: &str) -> Vec<Row> {
    let all = results.as_object().into_iter().flatten();
    all.filter(|(_, row)| row["unit"] == unit)
        .map(|(name, row)| Row {
            name: name.clone(),
            figures: BARS.map(|(key, ..)| row[key].as_f64().filter(|figure| *figure > 0.0)),
        })
        .collect()
}

/// How a figure is scaled to a length.
#[derive(Clone, Copy)]
enum Scale {
    /// For figures that span powers of ten.
    Logarithmic,
    FromZero,
}

impl Scale {
    fn length(self, figure: f64) -> f64 {
        match self {
            Scale::Logarithmic => figure.log10(),
            Scale::FromZero => figure,
        }
    }

    fn figure(self, length: f64) -> f64 {
        match self {
            Scale::Logarithmic => 10f64.powf(length),
            Scale::FromZero => length,
        }
    }

    /// Where the axis begins and ends.
    fn ends(self, figures: impl Iterator<Item = f64>) -> (f64, f64) {
        let lengths: Vec<_> = figures.map(|figure| self.length(figure)).collect();
        let low = lengths.iter().copied().fold(f64::INFINITY, f64::min);
        let high = lengths.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        match self {
            Scale::Logarithmic => (low.floor(), high.ceil()),
            Scale::FromZero => (0.0, high * 1.05),
        }
    }
}

/// Draws `rows` from top to bottom.
fn draw(
    path: &Path,
    title: &str,
    axis: &str,
    scale: Scale,
    rows: &[Row],
) -> Result<(), Box<dyn Error>> {
    let (low, high) = scale.ends(rows.iter().flat_map(|row| row.figures).flatten());
    if rows.is_empty() || low >= high {
        return Ok(());
    }
    let height = rows.len() as u32 * ROW + HEAD + FOOT;
    let area = SVGBackend::new(path, (WIDTH, height)).into_drawing_area();
    area.fill(&WHITE)?;
    let end = rows.len() as f64;
    let mut chart = ChartBuilder::on(&area)
        .margin_top(HEAD)
        .margin_right(20)
        .set_label_area_size(LabelAreaPosition::Left, NAMES)
        .set_label_area_size(LabelAreaPosition::Bottom, FOOT)
        .build_cartesian_2d(low..high, end..0.0)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .disable_y_axis()
        .x_labels(7)
        .x_max_light_lines(1)
        .x_desc(axis)
        .x_label_formatter(&|x| format!("{}", scale.figure(*x)))
        .draw()?;
    for (n, row) in rows.iter().enumerate() {
        for (i, (figure, (_, _, color))) in row.figures.iter().zip(BARS).enumerate() {
            let Some(figure) = figure else { continue };
            let top = n as f64 + 0.1 + 0.27 * i as f64;
            let bar = [(low, top), (scale.length(*figure), top + 0.25)];
            chart.draw_series([Rectangle::new(bar, color.filled())])?;
        }
        let (_, y) = chart.backend_coord(&(low, n as f64 + 0.35));
        let font = ("sans-serif", 14).into_font();
        area.draw(&Text::new(row.name.clone(), (10, y), font))?;
    }
    legend(&area, title, rows)?;
    area.present()?;
    Ok(())
}

/// The title, and the legend of the colours.
fn legend(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    title: &str,
    rows: &[Row],
) -> Result<(), Box<dyn Error>> {
    let font = || ("sans-serif", 15).into_font();
    area.draw(&Text::new(title.to_string(), (10, 12), font()))?;
    for (i, (_, name, color)) in BARS.iter().enumerate() {
        if rows.iter().all(|row| row.figures[i].is_none()) {
            continue;
        }
        let x = NAMES as i32 + 120 * i as i32;
        area.draw(&Rectangle::new([(x, 12), (x + 14, 26)], color.filled()))?;
        area.draw(&Text::new(*name, (x + 20, 12), font()))?;
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1).peekable();
    let over_time = arguments.next_if(|first| first == "--over-time").is_some();
    let (Some(file), Some(directory)) = (arguments.next(), arguments.next()) else {
        return Err("usage: oxe-chart [--over-time] FILE.JSON DIRECTORY".into());
    };
    let results: Value = serde_json::from_str(&std::fs::read_to_string(file)?)?;
    if over_time {
        return over_time::draw_all(&results, Path::new(&directory));
    }
    let charts = [
        (
            "bandwidth",
            "Gb/s",
            Scale::Logarithmic,
            "Gb/s on a logarithmic scale, more is better",
        ),
        (
            "latency",
            "us",
            Scale::FromZero,
            "microseconds, less is better",
        ),
    ];
    for (title, unit, scale, axis) in charts {
        let path = Path::new(&directory).join(title).with_extension("svg");
        draw(&path, title, axis, scale, &rows(&results, unit))?;
    }
    Ok(())
}
