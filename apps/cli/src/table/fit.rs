//! Fits columns into a terminal: the least important are left out until the rest fits, then the widest are shortened.

use super::{Column, GAP};

/// The width of each column, `None` if it is left out; `natural` are the widths of whole cells.
///
/// Wider than `limit` only if columns that always stay need more.
pub(super) fn widths(columns: &[Column], natural: &[usize], limit: usize) -> Vec<Option<usize>> {
    let least = |index: usize| match columns[index].least {
        Some(least) => natural[index].min(least.max(columns[index].title.len())),
        None => natural[index],
    };
    let mut shown: Vec<usize> = (0..columns.len()).collect();
    while total(shown.iter().map(|index| least(*index))) > limit {
        let droppable = shown.iter().filter(|index| columns[**index].rank.is_some());
        let Some(next) = droppable.min_by_key(|index| columns[**index].rank).copied() else {
            break;
        };
        shown.retain(|index| *index != next);
    }
    let mut widths: Vec<_> = natural.iter().map(|_| None).collect();
    shown.iter().for_each(|index| widths[*index] = Some(natural[*index]));
    let excess = total(widths.iter().copied().flatten()).saturating_sub(limit);
    for _ in 0..excess {
        let shrinkable = shown.iter().filter(|index| widths[**index] > Some(least(**index)));
        let Some(widest) = shrinkable.max_by_key(|index| widths[**index]) else { break };
        widths[*widest] = widths[*widest].map(|width| width - 1);
    }
    widths
}

fn total(widths: impl Iterator<Item = usize>) -> usize {
    widths.map(|width| width + GAP.len()).sum::<usize>().saturating_sub(GAP.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: &[Column] = &[
        Column::text("id"),
        Column::text("queue").shrinks_to(8),
        Column::number("attempts").drops(2),
        Column::text("type").shrinks_to(4).drops(1),
        Column::text("reason").shrinks_to(10),
    ];

    #[track_caller]
    fn check(limit: usize, expected: [usize; 5]) {
        let widths = widths(COLUMNS, &[11, 20, 8, 12, 30], limit);
        let expected = expected.map(|width| (width > 0).then_some(width));
        assert_eq!(widths, expected, "{limit}");
    }

    #[test]
    fn the_widest_columns_shrink_and_the_least_important_are_left_out() {
        check(89, [11, 20, 8, 12, 30]);
        check(80, [11, 20, 8, 12, 21]);
        check(60, [11, 11, 8, 11, 11]);
        check(49, [11, 8, 8, 4, 10]);
        check(48, [11, 12, 8, 0, 11]);
        check(42, [11, 14, 0, 0, 13]);
        check(10, [11, 8, 0, 0, 10]);
    }
}
