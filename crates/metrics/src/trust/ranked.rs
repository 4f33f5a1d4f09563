//! Order statistics of many values by rank, exact or to a part in 4,096.

/// Mantissa bits that tell bins apart.
const BITS: u32 = 12;
const SHIFT: u32 = f64::MANTISSA_DIGITS - 1 - BITS;
/// Exponents of the smallest and the largest bin: a nanosecond and some hours.
const SMALLEST: f64 = 1.0 / (1u64 << 30) as f64;
const LARGEST: f64 = (1u64 << 14) as f64;

/// Values in order.
pub(super) enum Ranked {
    /// All of them.
    Sorted(Vec<f64>),
    /// How many lie in each bin or below.
    Binned(Vec<u64>),
}

fn bin(value: f64) -> usize {
    ((value.clamp(SMALLEST, LARGEST).to_bits() - SMALLEST.to_bits()) >> SHIFT) as usize
}

/// The lower edge of a bin; the first one begins at 0.
fn edge(bin: usize) -> f64 {
    if bin == 0 { 0.0 } else { f64::from_bits(SMALLEST.to_bits() + ((bin as u64) << SHIFT)) }
}

impl Ranked {
    pub(super) fn sorted(mut values: Vec<f64>) -> Self {
        values.sort_unstable_by(f64::total_cmp);
        Ranked::Sorted(values)
    }

    pub(super) fn histogram(values: impl Iterator<Item = f64>) -> Self {
        let mut counts = vec![0; bin(LARGEST) + 1];
        values.for_each(|value| counts[bin(value)] += 1);
        let mut sum = 0;
        for count in &mut counts {
            sum += *count;
            *count = sum;
        }
        Ranked::Binned(counts)
    }

    fn count(&self) -> usize {
        match self {
            Ranked::Sorted(values) => values.len(),
            Ranked::Binned(sums) => sums.last().map_or(0, |sum| *sum as usize),
        }
    }

    /// A number not above the percentile if `count` values were moved down from above it; `None` for none.
    pub(super) fn below(&self, percent: f64, count: f64) -> Option<f64> {
        let rank = (percent / 100.0 * (self.count().max(1) - 1) as f64).floor() - count.ceil();
        match self {
            _ if count <= 0.0 => None,
            _ if rank < 0.0 => Some(0.0),
            Ranked::Sorted(values) => Some(values[rank as usize]),
            Ranked::Binned(sums) => Some(edge(sums.partition_point(|&sum| sum <= rank as u64))),
        }
    }

    /// A number not below the percentile if `count` values were moved up from below it; `None` for none.
    pub(super) fn above(&self, percent: f64, count: f64) -> Option<f64> {
        let rank = (percent / 100.0 * (self.count().max(1) - 1) as f64).ceil() + count.ceil();
        match self {
            _ if count <= 0.0 => None,
            _ if rank >= self.count() as f64 => Some(f64::INFINITY),
            Ranked::Sorted(values) => Some(values[rank as usize]),
            Ranked::Binned(sums) => Some(edge(sums.partition_point(|&sum| sum <= rank as u64) + 1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_hold_the_sorted_values() {
        let values: Vec<f64> = (0..1000).map(|at| f64::from(at * 37 % 1000) * 1e-4).collect();
        let (exact, binned) = (Ranked::sorted(values.clone()), Ranked::histogram(values.into_iter()));
        for (percent, count) in [(50.0, 3.0), (99.0, 9.5), (0.0, 1.0), (99.0, 400.0)] {
            let (low, high) = (exact.below(percent, count).unwrap(), exact.above(percent, count).unwrap());
            let found = (binned.below(percent, count).unwrap(), binned.above(percent, count).unwrap());
            assert!(found.0 <= low && low <= found.0 * 1.0003, "{low} {found:?}");
            assert!(found.1 >= high && (high.is_infinite() || found.1 <= high * 1.0003), "{high} {found:?}");
        }
        assert_eq!((binned.below(99.0, 0.0), exact.above(99.0, 20.0)), (None, Some(f64::INFINITY)));
    }
}
