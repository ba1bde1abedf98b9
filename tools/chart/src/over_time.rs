// SPDX-License-Identifier: GPL-2.0

//! A scenario of the lab over time: for each peer the goodput of its flows, and the queue that they
//! share below it.

use plotters::coord::Shift;
use plotters::prelude::*;
use serde_json::Value;
use std::error::Error;
use std::path::Path;

/// Pixels of a panel, of the title above the panels, of a panel's labels.
const PANEL: (u32, u32) = (300, 190);
const HEAD: u32 = 30;
const LEFT: u32 = 45;
const BOTTOM: u32 = 35;

/// Flows of one peer, one after another, then from the first again.
const COLORS: [RGBColor; 8] = [
    RGBColor(200, 80, 30),
    RGBColor(110, 150, 200),
    RGBColor(90, 150, 80),
    RGBColor(150, 100, 170),
    RGBColor(190, 150, 40),
    RGBColor(70, 160, 160),
    RGBColor(200, 110, 140),
    RGBColor(120, 120, 120),
];
const QUEUE: RGBColor = RGBColor(70, 70, 70);
const LIMIT: RGBColor = RGBColor(200, 60, 60);

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Curve = Vec<(f64, f64)>;

/// What one peer did.
struct Peer {
    label: String,
    /// Megabits in a second of each flow, by the second.
    flows: Vec<Curve>,
    /// Kilobytes of the queue, by the second.
    queue: Curve,
}

impl Peer {
    fn new(value: &Value) -> Self {
        let flows = value["flows"].as_array().into_iter().flatten();
        Self {
            label: value["label"].as_str().unwrap_or_default().to_string(),
            flows: flows.map(|flow| curve(flow, 1.0)).collect(),
            queue: peaks(&curve(&value["queue"], 1e-3)),
        }
    }
}

fn curve(points: &Value, scale: f64) -> Curve {
    let points = points.as_array().into_iter().flatten();
    points
        .filter_map(|point| Some((point[0].as_f64()?, point[1].as_f64()? * scale)))
        .collect()
}

/// Fewer points: of each so many milliseconds the lowest and the highest.
fn peaks(curve: &[(f64, f64)]) -> Curve {
    const EACH: f64 = 0.02;
    let mut found = Curve::new();
    for bin in curve.chunk_by(|a, b| (a.0 / EACH).floor() == (b.0 / EACH).floor()) {
        let by_height = |a: &&(f64, f64), b: &&(f64, f64)| a.1.total_cmp(&b.1);
        let (low, high) = (bin.iter().min_by(by_height), bin.iter().max_by(by_height));
        let mut ends: Vec<_> = low.into_iter().chain(high).copied().collect();
        ends.sort_by(|a, b| a.0.total_cmp(&b.0));
        ends.dedup();
        found.extend(ends);
    }
    found
}

/// The highest of these curves, or the floor if that is higher.
fn top<'a>(curves: impl Iterator<Item = &'a Curve>, floor: f64) -> f64 {
    curves.flatten().map(|point| point.1).fold(floor, f64::max) * 1.05
}

/// An SVG for each scenario whose queue has been seen.
pub(crate) fn draw_all(charts: &Value, directory: &Path) -> Result<(), Box<dyn Error>> {
    for chart in charts.as_array().into_iter().flatten() {
        let peers = chart["curves"].as_array().into_iter().flatten();
        let peers: Vec<_> = peers.map(Peer::new).collect();
        let name = chart["name"].as_str().unwrap_or_default();
        let path = directory.join(format!("{name}.svg"));
        if !peers.is_empty() {
            draw(&path, name, chart["limit"].as_f64(), &peers)?;
        }
    }
    Ok(())
}

fn draw(path: &Path, name: &str, limit: Option<f64>, peers: &[Peer]) -> Result<(), Box<dyn Error>> {
    // A crowd has no curve for each flow.
    let rows = if peers.iter().any(|peer| !peer.flows.is_empty()) {
        2
    } else {
        1
    };
    let size = (PANEL.0 * peers.len() as u32, HEAD + PANEL.1 * rows);
    let area = SVGBackend::new(path, size).into_drawing_area();
    area.fill(&WHITE)?;
    let (head, body) = area.split_vertically(HEAD);
    let title = format!("{name}: goodput of the flows, and the queue that they share");
    head.draw(&Text::new(title, (10, 8), ("sans-serif", 15).into_font()))?;
    let panels = body.split_evenly((rows as usize, peers.len()));
    let highest = top(peers.iter().flat_map(|peer| &peer.flows), 1.0);
    let fullest = top(peers.iter().map(|peer| &peer.queue), limit.unwrap_or(1.0));
    for (column, peer) in peers.iter().enumerate() {
        if rows == 2 {
            let colors = COLORS.iter().cycle();
            let curves: Vec<_> = peer.flows.iter().zip(colors.copied()).collect();
            panel(&panels[column], &peer.label, "Mb/s", highest, &curves)?;
        }
        let mut curves = vec![(&peer.queue, QUEUE)];
        let end = peer.queue.last().map_or(1.0, |point| point.0);
        let line = limit.map(|limit| vec![(0.0, limit), (end, limit)]);
        curves.extend(line.as_ref().map(|line| (line, LIMIT)));
        let title = format!("{}: queue", peer.label);
        let last = (rows as usize - 1) * peers.len() + column;
        panel(&panels[last], &title, "kB", fullest, &curves)?;
    }
    area.present()?;
    Ok(())
}

fn panel(
    area: &Area<'_>,
    title: &str,
    unit: &str,
    highest: f64,
    curves: &[(&Curve, RGBColor)],
) -> Result<(), Box<dyn Error>> {
    let ends = curves.iter().filter_map(|(curve, _)| curve.last());
    let end = ends.map(|point| point.0).fold(0.1, f64::max);
    let mut chart = ChartBuilder::on(area)
        .margin(8)
        .caption(title, ("sans-serif", 13))
        .set_label_area_size(LabelAreaPosition::Left, LEFT)
        .set_label_area_size(LabelAreaPosition::Bottom, BOTTOM)
        .build_cartesian_2d(0.0..end, 0.0..highest)?;
    chart
        .configure_mesh()
        .x_labels(5)
        .y_labels(5)
        .max_light_lines(1)
        .x_desc("s")
        .y_desc(unit)
        .draw()?;
    for (curve, color) in curves {
        chart.draw_series(LineSeries::new(
            curve.iter().copied(),
            color.stroke_width(1),
        ))?;
    }
    Ok(())
}
