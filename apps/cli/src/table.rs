//! Plain-text tables without borders.

use anstyle::{AnsiColor, Style};
use unicode_width::UnicodeWidthStr;

use crate::output::printable;

const GAP: &str = "  ";

/// Red and bold, so that it also stands out without colours.
pub(crate) const ALARM: Style = AnsiColor::Red.on_default().bold();
/// Yellow.
pub(crate) const WARNING: Style = AnsiColor::Yellow.on_default();
const TITLE: Style = Style::new().bold();

/// The alignment of a column: text to the left, numbers to the right.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Lean {
    Left,
    Right,
}

/// A cell.
#[derive(Debug, Clone)]
pub(crate) struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    /// A cell with a style.
    pub(crate) fn styled(text: &str, style: Style) -> Self {
        Self { text: printable(text).into_owned(), style }
    }

    fn width(&self) -> usize {
        self.text.width()
    }
}

impl<T: AsRef<str>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::styled(text.as_ref(), Style::new())
    }
}

/// Rows under a header.
#[derive(Debug)]
pub(crate) struct Table {
    leans: Vec<Lean>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table with these columns.
    pub(crate) fn new(columns: &[(&str, Lean)]) -> Self {
        let titles = columns.iter().map(|(title, _)| Cell::styled(title, TITLE)).collect();
        Self { leans: columns.iter().map(|(_, lean)| *lean).collect(), rows: vec![titles] }
    }

    /// A table of labels and values, without a header.
    pub(crate) fn of_facts() -> Self {
        Self { leans: vec![Lean::Left; 2], rows: Vec::new() }
    }

    /// Adds a row with one cell per column.
    pub(crate) fn push<const N: usize>(&mut self, cells: [Cell; N]) {
        debug_assert_eq!(N, self.leans.len(), "a cell for each column");
        self.rows.push(cells.into());
    }

    /// The text, with colours.
    pub(crate) fn render(&self) -> String {
        let widths = self.widths();
        self.rows.iter().map(|row| self.line(row, &widths) + "\n").collect()
    }

    fn widths(&self) -> Vec<usize> {
        let widest = |column: usize| self.rows.iter().map(|row| row[column].width()).max();
        (0..self.leans.len()).map(|column| widest(column).unwrap_or_default()).collect()
    }

    fn line(&self, row: &[Cell], widths: &[usize]) -> String {
        let mut line = String::new();
        let mut owed = 0; // spaces to write only if another cell follows
        for ((cell, lean), width) in row.iter().zip(&self.leans).zip(widths) {
            let missing = width - cell.width();
            let (before, after) = match lean {
                Lean::Left => (0, missing),
                Lean::Right => (missing, 0),
            };
            if !cell.text.is_empty() {
                line.push_str(&" ".repeat(owed + before));
                let style = cell.style;
                line.push_str(&format!("{style}{}{style:#}", cell.text));
                owed = after + GAP.len();
            } else {
                owed += width + GAP.len();
            }
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table =
            Table::new(&[("queue", Lean::Left), ("dead", Lean::Right), ("", Lean::Left)]);
        table.push(["größe".into(), Cell::styled("1,234", ALARM), "x".into()]);
        table.push(["検査\u{1b}".into(), "".into(), "".into()]);
        table.push(["".into(), "7".into(), "y".into()]);
        table
    }

    #[test]
    fn columns_fit_their_widest_cell_without_trailing_spaces() {
        let plain = anstream::adapter::strip_str(&table().render()).to_string();
        let expected = ["queue   dead", "größe  1,234  x", "検査\u{fffd}", "           7  y", ""];
        assert_eq!(plain, expected.join("\n"));
    }

    #[test]
    fn alarms_are_red() {
        let text = table().render();
        assert!(text.contains("\u{1b}[1m\u{1b}[31m1,234\u{1b}[0m"), "{text:?}");
    }
}
