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
            for line in problem.remedy.lines() {
                writeln!(out, "    {line}")?;
            }
        }
        for line in &self.lines {
            writeln!(out, "{line}")?;
        }
        out.flush()
    }
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
    use super::table;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [
            vec!["a".into(), "bc".into()],
            vec!["def".into(), "g".into()],
        ];
        assert_eq!(table(&rows), ["a    bc", "def  g"]);
        assert!(table(&[]).is_empty());
    }
}
