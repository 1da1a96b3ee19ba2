//! Plain-text tables without borders, which fit the terminal.

mod fit;

use std::borrow::Cow;

use anstyle::{AnsiColor, Style};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::{humanize, output::printable};

const GAP: &str = "  ";

/// The alignment of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lean {
    Left,
    Right,
}

/// A column, and what happens to it on a narrow terminal.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    title: &'static str,
    lean: Lean,
    /// The width that its cells may be shortened to; `None` if they are always shown whole.
    least: Option<usize>,
    /// Columns are left out in this order; `None` if it always stays.
    rank: Option<u8>,
}

impl Column {
    /// A column of text, aligned to the left.
    pub(crate) const fn text(title: &'static str) -> Self {
        Self { title, lean: Lean::Left, least: None, rank: None }
    }

    /// A column of numbers, aligned to the right.
    pub(crate) const fn number(title: &'static str) -> Self {
        Self { lean: Lean::Right, ..Self::text(title) }
    }

    /// Its cells may be shortened, down to this width.
    pub(crate) const fn shrinks_to(self, least: usize) -> Self {
        Self { least: Some(least), ..self }
    }

    /// It may be left out, before those of a higher rank.
    pub(crate) const fn drops(self, rank: u8) -> Self {
        Self { rank: Some(rank), ..self }
    }
}

/// How a cell stands out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Title,
    /// Yellow.
    Warning,
    /// Red and bold, so that it also stands out without colours.
    Alarm,
}

impl Tone {
    fn style(self) -> Style {
        match self {
            Self::Plain => Style::new(),
            Self::Title => Style::new().bold(),
            Self::Warning => AnsiColor::Yellow.on_default(),
            Self::Alarm => AnsiColor::Red.on_default().bold(),
        }
    }
}

/// A cell.
#[derive(Debug, Clone)]
pub(crate) struct Cell {
    text: String,
    /// How it stands out.
    pub(crate) tone: Tone,
}

impl Cell {
    /// A cell that stands out.
    pub(crate) fn toned(text: &str, tone: Tone) -> Self {
        Self { text: printable(text).into_owned(), tone }
    }

    /// The text, shortened to a width.
    pub(crate) fn clipped(&self, width: usize) -> Cow<'_, str> {
        if self.width() <= width {
            return Cow::Borrowed(&self.text);
        }
        let mut used = 1; // for the ellipsis
        let fits = |c: &char| {
            used += c.width().unwrap_or_default();
            used <= width
        };
        let mut text: String = self.text.chars().take_while(fits).collect();
        text.push('…');
        text.into()
    }

    fn width(&self) -> usize {
        self.text.width()
    }
}

impl<T: AsRef<str>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::toned(text.as_ref(), Tone::Plain)
    }
}

/// Rows under a header.
#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

/// A column as it is shown: its place in each row, its alignment, its width.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ShownColumn {
    pub(crate) index: usize,
    pub(crate) lean: Lean,
    pub(crate) width: usize,
}

impl Table {
    /// A table with these columns.
    pub(crate) fn new(columns: &[Column]) -> Self {
        let titles = columns.iter().map(|column| Cell::toned(column.title, Tone::Title)).collect();
        Self { columns: columns.into(), rows: vec![titles] }
    }

    /// A table of labels and values, without a header.
    pub(crate) fn of_facts() -> Self {
        Self { columns: vec![Column::text(""); 2], rows: Vec::new() }
    }

    /// Adds a row with one cell per column.
    pub(crate) fn push(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let row: Vec<_> = cells.into_iter().collect();
        debug_assert_eq!(row.len(), self.columns.len(), "a cell for each column");
        self.rows.push(row);
    }

    /// The rows, beginning with the titles.
    pub(crate) fn rows(&self) -> &[Vec<Cell>] {
        &self.rows
    }

    /// The whole text, with colours.
    pub(crate) fn render(&self) -> String {
        self.render_in(usize::MAX)
    }

    /// The text, fitted into a terminal of this width.
    pub(crate) fn render_in(&self, width: usize) -> String {
        let shown = self.fit(width);
        self.rows.iter().map(|row| line(row, &shown) + "\n").collect()
    }

    /// The columns that fit into this width.
    pub(crate) fn fit(&self, width: usize) -> Vec<ShownColumn> {
        let widest = |column: usize| self.rows.iter().map(|row| row[column].width()).max();
        let all = 0..self.columns.len();
        let natural: Vec<_> = all.map(|column| widest(column).unwrap_or_default()).collect();
        let columns: Vec<_> = (0..).zip(&self.columns).map(|it| self.ranked(it)).collect();
        let widths = fit::widths(&columns, &natural, width);
        let shown = widths.iter().zip(&self.columns).enumerate();
        let shown = shown.filter_map(|(index, (width, column))| {
            width.map(|width| ShownColumn { index, lean: column.lean, width })
        });
        shown.collect()
    }

    /// A column without values is the first to be left out.
    fn ranked(&self, (index, column): (usize, &Column)) -> Column {
        let is_empty = |row: &Vec<Cell>| matches!(row[index].text.as_str(), "" | humanize::NONE);
        if self.rows.iter().skip(1).all(is_empty) { column.drops(0) } else { *column }
    }
}

fn line(row: &[Cell], shown: &[ShownColumn]) -> String {
    let mut line = String::new();
    let mut owed = 0; // spaces to write only if another cell follows
    for ShownColumn { index, lean, width } in shown {
        let text = row[*index].clipped(*width);
        let missing = width - text.width();
        let (before, after) = match lean {
            Lean::Left => (0, missing),
            Lean::Right => (missing, 0),
        };
        if !text.is_empty() {
            line.push_str(&" ".repeat(owed + before));
            let style = row[*index].tone.style();
            line.push_str(&format!("{style}{text}{style:#}"));
            owed = after + GAP.len();
        } else {
            owed += width + GAP.len();
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table =
            Table::new(&[Column::text("queue"), Column::number("dead"), Column::text("")]);
        table.push(["größe".into(), Cell::toned("1,234", Tone::Alarm), "x".into()]);
        table.push(["検査\u{1b}".into(), "".into(), "".into()]);
        table.push(["".into(), "7".into(), "y".into()]);
        table
    }

    fn plain(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    #[test]
    fn columns_fit_their_widest_cell_without_trailing_spaces() {
        let expected = ["queue   dead", "größe  1,234  x", "検査\u{fffd}", "           7  y", ""];
        assert_eq!(plain(&table().render()), expected.join("\n"));
    }

    #[test]
    fn a_narrow_terminal_shows_shortened_cells_and_fewer_columns() {
        let columns = [
            Column::text("queue").shrinks_to(5),
            Column::number("dead"),
            Column::text("note").drops(1),
        ];
        let mut table = Table::new(&columns);
        table.push(["検査検査検査".into(), "7".into(), "a note".into()]);
        for (width, expected) in [
            (40, "queue         dead  note\n検査検査検査     7  a note\n"),
            (20, "queue   dead  note\n検査…      7  a note\n"),
            (12, "queue   dead\n検査…      7\n"),
            (1, "queue  dead\n検査…     7\n"),
        ] {
            assert_eq!(plain(&table.render_in(width)), expected, "{width}");
        }
        let mut empty = Table::new(&columns);
        empty.push(["lab".into(), humanize::NONE.into(), "a note".into()]);
        assert_eq!(plain(&empty.render_in(14)), "queue  note\nlab    a note\n");
    }

    #[test]
    fn alarms_are_red() {
        let text = table().render();
        assert!(text.contains("\u{1b}[1m\u{1b}[31m1,234\u{1b}[0m"), "{text:?}");
    }
}
