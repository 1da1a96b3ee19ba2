//! Tables of the live view, with as many columns as fit.

use ratatui::{
    layout::{Alignment, Constraint},
    style::Style,
    text::Line,
    widgets::{Row, Table as TableWidget},
};

use super::{ALARM, Board, TITLE, WARNING, curve};
use crate::{
    humanize, queue_table,
    table::{Cell, Column, Lean, ShownColumn, Table, Tone},
};

const CURVE_WIDTH: usize = 12;
const HISTORY: [Column; 2] =
    [Column::number("trend").drops(6), Column::text("throughput").drops(2)];

/// The queues, with their throughput over time.
pub(super) fn queues(board: &Board) -> Table {
    queue_table::with_columns(&board.queues, HISTORY, |it| {
        let trend = board.trend(&it.queue).map_or(humanize::UNKNOWN.to_owned(), trend);
        [trend.into(), curve::text(board.samples(&it.queue), CURVE_WIDTH).into()]
    })
}

/// `+12`, `−3`, `0`: how many more messages wait than a minute ago.
fn trend(change: i64) -> String {
    let sign = match change {
        1.. => "+",
        0 => "",
        _ => "−",
    };
    format!("{sign}{}", humanize::count(change.unsigned_abs()))
}

/// A table that fits into `width`.
pub(super) fn widget(table: &Table, width: u16) -> TableWidget<'static> {
    let shown = table.fit(width.into());
    let line = |row: &[Cell]| Row::new(shown.iter().map(|column| cell(row, column)));
    let widths = shown.iter().map(|column| Constraint::Length(column.width as u16));
    let mut rows = table.rows().iter().map(|row| line(row));
    let header = rows.next().unwrap_or_default();
    TableWidget::new(rows, widths).header(header).column_spacing(2)
}

fn cell(row: &[Cell], column: &ShownColumn) -> Line<'static> {
    let cell = &row[column.index];
    let style = match cell.tone {
        Tone::Plain => Style::new(),
        Tone::Title => TITLE,
        Tone::Warning => WARNING,
        Tone::Alarm => ALARM,
    };
    let alignment = match column.lean {
        Lean::Left => Alignment::Left,
        Lean::Right => Alignment::Right,
    };
    Line::styled(cell.clipped(column.width).into_owned(), style).alignment(alignment)
}
