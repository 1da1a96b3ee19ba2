//! The columns of the table; a narrow terminal shows only the most important ones.

use ratatui::{
    layout::Constraint,
    text::{Line, Span},
    widgets::{Row, Table},
};

use super::{ALARM, Board, TITLE, WARNING, curve};
use crate::{
    humanize,
    queue_status::{Condition, QueueStatus, QueueText},
};

/// The width from which all columns are shown.
const WIDE: u16 = 120;
const CURVE_WIDTH: u16 = 12;

type Show = fn(&Board, &QueueStatus) -> Line<'static>;

struct Column {
    title: &'static str,
    width: Constraint,
    is_vital: bool,
    cell: Show,
}

const COLUMNS: &[Column] = &[
    vital("queue", Constraint::Fill(1), |_, it| it.queue.clone().into()),
    vital("ready", Constraint::Length(9), |_, it| right(it.ready())),
    extra("delayed", Constraint::Length(9), |_, it| count(it.delayed)),
    vital("in flight", Constraint::Length(9), |_, it| count(it.in_flight)),
    vital("dead", Constraint::Length(9), |_, it| dead(it)),
    extra("oldest ready", Constraint::Length(12), |_, it| right(it.oldest_ready())),
    vital("oldest dead", Constraint::Length(11), |_, it| right(it.oldest_dead())),
    vital("per second", Constraint::Length(10), |_, it| right(it.per_second())),
    extra("", Constraint::Length(CURVE_WIDTH), |board, it| {
        curve::text(board.samples(&it.queue), CURVE_WIDTH.into()).into()
    }),
    vital("state", Constraint::Fill(1), |_, it| state(it)),
];

/// The queues as a table that fits into `width`.
pub(super) fn table(board: &Board, width: u16) -> Table<'static> {
    let columns: Vec<_> =
        COLUMNS.iter().filter(|column| column.is_vital || width >= WIDE).collect();
    let row = |it: &QueueStatus| Row::new(columns.iter().map(|column| (column.cell)(board, it)));
    let rows: Vec<_> = board.queues.iter().map(row).collect();
    Table::new(rows, columns.iter().map(|column| column.width))
        .header(Row::new(columns.iter().map(|column| title(column))).style(TITLE))
}

const fn vital(title: &'static str, width: Constraint, cell: Show) -> Column {
    Column { title, width, is_vital: true, cell }
}

const fn extra(title: &'static str, width: Constraint, cell: Show) -> Column {
    Column { title, width, is_vital: false, cell }
}

/// Numbers and their titles are right-aligned.
fn title(column: &Column) -> Line<'static> {
    match column.width {
        Constraint::Length(_) => right(column.title),
        _ => column.title.into(),
    }
}

fn count(known: Option<u64>) -> Line<'static> {
    right(humanize::count_or_unknown(known))
}

fn dead(status: &QueueStatus) -> Line<'static> {
    let count = count(status.dead);
    if status.dead > Some(0) { count.style(ALARM) } else { count }
}

fn right(text: impl Into<Line<'static>>) -> Line<'static> {
    text.into().right_aligned()
}

fn state(status: &QueueStatus) -> Line<'static> {
    match status.state() {
        (Condition::Fine, words) => words.into(),
        (Condition::HeldBack, words) => Span::styled(words, WARNING).into(),
        (Condition::Down, words) => Span::styled(words, ALARM).into(),
    }
}
