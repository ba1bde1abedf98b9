// SPDX-License-Identifier: GPL-2.0

//! What a command prints: problems first, then lines for people; or one JSON object.

use crate::problem::Problem;
use serde_json::{json, Value};
use std::io::{self, Write};

/// What a command found out.
pub(crate) struct Report {
    pub(crate) problems: Vec<Problem>,
    /// For people.
    pub(crate) lines: Vec<String>,
    /// For programs: an object, to which the problems are added.
    pub(crate) data: Value,
}

impl Report {
    pub(crate) fn print(&self, as_json: bool) -> io::Result<()> {
        let mut out = io::stdout().lock();
        if as_json {
            let mut data = self.data.clone();
            data["problems"] = json!(self.problems);
            return writeln!(out, "{data:#}");
        }
        for problem in &self.problems {
            writeln!(out, "problem: {}", problem.text)?;
            for line in problem.remedy.lines().flat_map(wrap) {
                writeln!(out, "    {line}")?;
            }
        }
        for line in &self.lines {
            writeln!(out, "{line}")?;
        }
        out.flush()
    }
}

/// The widest line of a remedy.
const WIDTH: usize = 96;

/// A line as lines that are not too wide, divided at blanks.
fn wrap(line: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in line.split(' ') {
        match lines.last_mut() {
            Some(last) if last.is_empty() => last.push_str(word),
            Some(last) if last.len() + 1 + word.len() <= WIDTH => {
                last.push(' ');
                last.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Rows as lines, each column as wide as its widest cell.
pub(crate) fn table(rows: &[Vec<String>]) -> Vec<String> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths);
        let padded: Vec<String> = cells
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        padded.join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::{table, wrap, WIDTH};

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [
            vec!["a".into(), "bc".into()],
            vec!["def".into(), "g".into()],
        ];
        assert_eq!(table(&rows), ["a    bc", "def  g"]);
        assert!(table(&[]).is_empty());
    }

    #[test]
    fn lines_are_divided_at_blanks() {
        assert_eq!(wrap("a b"), ["a b"]);
        let long = "word ".repeat(40);
        let lines = wrap(long.trim_end());
        assert!(lines.len() == 3 && lines.iter().all(|line| line.len() <= WIDTH));
        assert_eq!(lines.join(" "), long.trim_end());
        assert_eq!(wrap(&"x".repeat(200)), ["x".repeat(200)]);
    }
}
