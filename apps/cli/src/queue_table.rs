//! Queues as a table, for `bezoar queues` and `bezoar top`.

use crate::{
    humanize,
    queue_status::{Condition, QueueStatus, QueueText},
    table::{Cell, Column, Table, Tone},
};

const COLUMNS: [Column; 10] = [
    Column::text("queue").shrinks_to(12),
    Column::number("ready"),
    Column::number("delayed").drops(4),
    Column::number("in flight").drops(5),
    Column::number("dead"),
    Column::number("oldest ready").drops(3),
    Column::number("oldest dead").drops(6),
    Column::number("per second").drops(7),
    Column::text("route").shrinks_to(20).drops(1),
    Column::text("state").shrinks_to(12),
];

/// A row for each queue.
pub(crate) fn table(queues: &[QueueStatus]) -> Table {
    with_columns(queues, [], |_| [])
}

/// The same with more columns, which `more` fills.
pub(crate) fn with_columns<const N: usize>(
    queues: &[QueueStatus],
    columns: [Column; N],
    more: impl Fn(&QueueStatus) -> [Cell; N],
) -> Table {
    let mut table = Table::new(&[&COLUMNS[..], &columns].concat());
    for queue in queues {
        table.push(cells(queue).into_iter().chain(more(queue)));
    }
    table
}

fn cells(queue: &QueueStatus) -> [Cell; 10] {
    [
        queue.queue.as_str().into(),
        queue.ready().into(),
        humanize::count_or_unknown(queue.delayed).into(),
        humanize::count_or_unknown(queue.in_flight).into(),
        dead(queue),
        queue.oldest_ready().into(),
        queue.oldest_dead().into(),
        queue.per_second().into(),
        queue.leads_to().into(),
        state(queue),
    ]
}

fn dead(queue: &QueueStatus) -> Cell {
    let tone = if queue.dead > Some(0) { Tone::Alarm } else { Tone::Plain };
    Cell::toned(&humanize::count_or_unknown(queue.dead), tone)
}

fn state(queue: &QueueStatus) -> Cell {
    let (condition, words) = queue.state();
    let tone = match condition {
        Condition::Fine => Tone::Plain,
        Condition::HeldBack => Tone::Warning,
        Condition::Down => Tone::Alarm,
    };
    Cell::toned(&words, tone)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_most_important_columns_fit_a_narrow_terminal() {
        let route = json!({
            "name": "results", "to": "https://archive.example.org/results", "paused": null,
            "breaker": "open", "breaker_code": "http.503", "per_second": 12.5,
        });
        let queues: Vec<QueueStatus> = serde_json::from_value(json!([
            { "queue": "hospital/results", "ready": 1234, "delayed": 5, "in_flight": 16, "dead": 7,
              "oldest_ready_seconds": 200.0, "oldest_dead_seconds": 7300.0, "route": route },
        ]))
        .unwrap();
        let table = table(&queues);
        for (width, expected) in [
            (
                120,
                "queue         ready  delayed  in flight  dead  oldest ready  oldest dead  per second  route                 state\n\
                 hospital/re…  1,234        5         16     7           3 m          2 h        12.5  results → https://a…  breaker ope…\n",
            ),
            (
                80,
                "queue            ready  in flight  dead  oldest dead  per second  state\n\
                 hospital/resul…  1,234         16     7          2 h        12.5  breaker open …\n",
            ),
            (
                60,
                "queue             ready  dead  per second  state\n\
                 hospital/results  1,234     7        12.5  breaker open (ht…\n",
            ),
        ] {
            let text = anstream::adapter::strip_str(&table.render_in(width)).to_string();
            assert_eq!(text, expected);
        }
    }
}
