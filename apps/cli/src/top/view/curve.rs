//! A sparkline in one line of text.

const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The latest samples, newest at the right; a gap where the value is unknown.
pub(super) fn text(samples: impl DoubleEndedIterator<Item = Option<u64>>, width: usize) -> String {
    let latest: Vec<_> = samples.rev().take(width).collect();
    let most = latest.iter().flatten().copied().max().unwrap_or_default();
    let bars = latest.iter().rev().map(|sample| sample.map_or(' ', |sample| bar(sample, most)));
    format!("{:>width$}", bars.collect::<String>())
}

fn bar(sample: u64, most: u64) -> char {
    let steps = BARS.len() as u64 - 1;
    let step = (sample * steps).div_ceil(most.max(1)); // a value above 0 is never drawn as 0
    BARS[step.min(steps) as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(samples: &[Option<u64>], expected: &str) {
        assert_eq!(text(samples.iter().copied(), 6), expected);
    }

    #[test]
    fn the_newest_sample_is_at_the_right_and_unknown_is_a_gap() {
        check(&[], "      ");
        check(&[Some(0), Some(0)], "    ▁▁");
        check(&[Some(0), Some(1), None, Some(350), Some(700)], " ▁▂ ▅█");
        check(&[1, 9, 9, 9, 9, 9, 9].map(Some), "██████");
    }
}
