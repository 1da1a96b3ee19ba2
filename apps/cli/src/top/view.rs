//! Draws the live view.

mod columns;
mod curve;

use std::time::Duration;

use bezoar::{Clock, SystemClock};
use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::{Color, Modifier, Style},
    text::{Line, Span},
    widgets::{Block, Borders, Paragraph, Sparkline, TableState},
};
use tokio::time::Instant;

use super::board::Board;
use crate::{
    dead::{causes, replays},
    humanize,
    queue_status::QueueText,
    table::Table,
};

/// Data older than this is marked as stale.
const FRESH: Duration = Duration::from_secs(3);
/// The lines of the queues at least, of the selected queue, and of another table at most, without its header.
const QUEUES: u16 = 3;
const CHOSEN: u16 = 6;
const PANEL_ROWS: usize = 5;
/// Also bold, so that it stands out without colours.
const ALARM: Style = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);
const WARNING: Style = Style::new().fg(Color::Yellow);
const TITLE: Style = Style::new().add_modifier(Modifier::BOLD);
const SELECTED: Style = Style::new().add_modifier(Modifier::REVERSED);
const QUIET: Style = Style::new().add_modifier(Modifier::DIM);

/// Draws the whole view.
pub(super) fn draw(frame: &mut Frame<'_>, board: &Board, now: Instant) {
    let time = SystemClock.now();
    let operations = replays::table(&board.operations, time);
    let causes = causes::table(&board.causes, time);
    let mut room = frame.area().height.saturating_sub(1 + QUEUES + CHOSEN + 1);
    let parts = [
        Constraint::Length(1),
        Constraint::Min(QUEUES),
        Constraint::Length(panel_height(&operations, &mut room)),
        Constraint::Length(panel_height(&causes, &mut room)),
        Constraint::Length(CHOSEN),
        Constraint::Length(1),
    ];
    let [head, body, running, failing, foot, help] = Layout::vertical(parts).areas(frame.area());
    frame.render_widget(Paragraph::new(heading(board, now)), head);
    let mut state = TableState::new().with_selected(board.chosen().map(|_| board.selected));
    let table = columns::widget(&columns::queues(board), body.width).row_highlight_style(SELECTED);
    frame.render_stateful_widget(table, body, &mut state);
    draw_panel(frame, "operations", &operations, running);
    draw_panel(frame, "causes of dead letters", &causes, failing);
    draw_chosen(frame, board, foot);
    frame.render_widget(Paragraph::new(footer(board, now)), help);
}

/// The height of a table with its title and header; 0 if it is empty or has no room. Takes it from the room.
fn panel_height(table: &Table, room: &mut u16) -> u16 {
    let rows = (table.rows().len() - 1).min(PANEL_ROWS) as u16;
    let height = (rows + 2).min(*room);
    if rows == 0 || height < 3 {
        return 0;
    }
    *room -= height;
    height
}

fn draw_panel(frame: &mut Frame<'_>, title: &str, table: &Table, area: Rect) {
    let block = Block::new().borders(Borders::TOP).title(format!(" {title} ")).border_style(QUIET);
    frame.render_widget(columns::widget(table, area.width).block(block), area);
}

fn heading(board: &Board, now: Instant) -> Line<'_> {
    let mut spans = vec![Span::styled("bezoar top  ", TITLE), Span::raw(board.url.as_str())];
    let age = board.as_of.map(|as_of| now.saturating_duration_since(as_of));
    if let Some(problem) = &board.problem {
        spans.push(Span::styled(format!("  {problem}"), ALARM));
    }
    if let Some(age) = age.filter(|age| *age >= FRESH) {
        spans.push(Span::styled(format!("  (as of {} ago)", humanize::age(age)), WARNING));
    }
    Line::from(spans)
}

/// The selected queue: its endpoint, and its throughput over the last minutes.
fn draw_chosen(frame: &mut Frame<'_>, board: &Board, area: Rect) {
    let Some(status) = board.chosen() else { return };
    let title = format!(" {}: {}/s, {} ", status.queue, status.per_second(), status.leads_to());
    let block = Block::bordered().title(title).border_style(QUIET);
    let width = usize::from(block.inner(area).width);
    // The newest sample is at the right edge.
    let mut samples: Vec<_> = board.samples(&status.queue).rev().take(width).collect();
    samples.resize(width, None);
    samples.reverse();
    frame.render_widget(Sparkline::default().block(block).data(samples), area);
}

fn footer(board: &Board, now: Instant) -> Line<'_> {
    match (board.question(), board.notice(now)) {
        (Some(question), _) => Line::styled(question, ALARM),
        (None, Some(notice)) => Line::styled(notice, WARNING),
        (None, None) => Line::styled("q quit   ↑ ↓ select   p pause or resume the route", QUIET),
    }
}

#[cfg(test)]
mod tests;
