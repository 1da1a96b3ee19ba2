//! Draws the live view.

mod columns;
mod curve;

use std::time::Duration;

use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::{Color, Modifier, Style},
    text::{Line, Span},
    widgets::{Block, Paragraph, Sparkline, TableState},
};
use tokio::time::Instant;

use super::board::Board;
use crate::{humanize, queue_status::QueueText};

/// Data older than this is marked as stale.
const FRESH: Duration = Duration::from_secs(3);
/// Also bold, so that it stands out without colours.
const ALARM: Style = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);
const WARNING: Style = Style::new().fg(Color::Yellow);
const TITLE: Style = Style::new().add_modifier(Modifier::BOLD);
const SELECTED: Style = Style::new().add_modifier(Modifier::REVERSED);
const QUIET: Style = Style::new().add_modifier(Modifier::DIM);

/// Draws the whole view.
pub(super) fn draw(frame: &mut Frame<'_>, board: &Board, now: Instant) {
    let parts =
        [Constraint::Length(1), Constraint::Min(3), Constraint::Length(6), Constraint::Length(1)];
    let [head, body, foot, help] = Layout::vertical(parts).areas(frame.area());
    frame.render_widget(Paragraph::new(heading(board, now)), head);
    let mut state = TableState::new().with_selected(board.chosen().map(|_| board.selected));
    let table = columns::widget(&columns::queues(board), body.width).row_highlight_style(SELECTED);
    frame.render_stateful_widget(table, body, &mut state);
    draw_chosen(frame, board, foot);
    frame.render_widget(Paragraph::new(footer(board, now)), help);
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
