//! The inter-token times of one request, packed: they take most of the memory of a long run's result.

use std::{borrow::Cow, fmt};

use tacho_core::Timestamp;

/// Largest number of nanoseconds that converts to seconds and back without loss.
const MAX_EXACT_NANOS: f64 = 9e15;
/// The width at which values are stored as floats.
const FLOAT_WIDTH: usize = size_of::<f64>();

/// Gaps in seconds. Whole nanoseconds, as all measured ones are, take as many bytes as the largest needs: three up to
/// 16 ms, four up to four seconds.
#[derive(Clone, Default, PartialEq)]
pub struct Gaps {
    /// The width of a gap in bytes, then the gaps; empty if there are none.
    bytes: Box<[u8]>,
}

impl Gaps {
    /// The gaps between timestamps.
    pub fn between(timestamps: &[Timestamp]) -> Self {
        let pairs = || timestamps.windows(2);
        match pairs().all(|pair| pair[0] <= pair[1] && ((pair[1].0 - pair[0].0) as f64) < MAX_EXACT_NANOS) {
            true => Self::whole(timestamps.len().saturating_sub(1), pairs().map(|pair| pair[1].0 - pair[0].0)),
            false => pairs().map(|pair| pair[1].secs_since(pair[0])).collect::<Vec<f64>>().into(),
        }
    }

    /// Number of gaps.
    pub fn len(&self) -> usize {
        self.bytes.split_first().map_or(0, |(&width, gaps)| gaps.len() / usize::from(width))
    }

    /// Returns whether there are no gaps.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Iterates over them in order.
    pub fn iter(&self) -> Iter<'_> {
        Iter { bytes: Cow::Borrowed(&self.bytes), at: 1 }
    }

    pub(crate) fn iter_of(gaps: Cow<'_, Gaps>) -> Iter<'_> {
        match gaps {
            Cow::Borrowed(gaps) => gaps.iter(),
            Cow::Owned(gaps) => Iter { bytes: Cow::Owned(gaps.bytes.into_vec()), at: 1 },
        }
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        Gaps { bytes: bytes.into() }
    }

    /// The gaps as a list.
    pub fn to_vec(&self) -> Vec<f64> {
        self.iter().collect()
    }

    fn whole(count: usize, nanos: impl Iterator<Item = u64> + Clone) -> Self {
        let max = nanos.clone().max().unwrap_or(0);
        let width = (FLOAT_WIDTH - max.leading_zeros() as usize / 8).max(1);
        Self::packed(count, width, nanos.map(u64::to_le_bytes))
    }

    fn packed(count: usize, width: usize, values: impl Iterator<Item = [u8; FLOAT_WIDTH]>) -> Self {
        if count == 0 {
            return Gaps::default();
        }
        let mut bytes = Vec::with_capacity(1 + count * width);
        bytes.push(width as u8);
        values.for_each(|value| bytes.extend_from_slice(&value[..width]));
        Gaps { bytes: bytes.into_boxed_slice() }
    }
}

/// The gap in nanoseconds, if that is exact.
fn nanos(gap: f64) -> Option<u64> {
    let nanos = (gap * 1e9).round();
    // Negative zero would lose its sign.
    let whole = gap.is_sign_positive() && nanos < MAX_EXACT_NANOS && gap.to_bits() == (nanos / 1e9).to_bits();
    whole.then_some(nanos as u64)
}

impl From<&[f64]> for Gaps {
    fn from(gaps: &[f64]) -> Self {
        match gaps.iter().all(|gap| nanos(*gap).is_some()) {
            true => Self::whole(gaps.len(), gaps.iter().filter_map(|gap| nanos(*gap))),
            false => Self::packed(gaps.len(), FLOAT_WIDTH, gaps.iter().map(|gap| gap.to_le_bytes())),
        }
    }
}

impl From<Vec<f64>> for Gaps {
    fn from(gaps: Vec<f64>) -> Self {
        gaps.as_slice().into()
    }
}

impl FromIterator<f64> for Gaps {
    fn from_iter<T: IntoIterator<Item = f64>>(gaps: T) -> Self {
        gaps.into_iter().collect::<Vec<f64>>().into()
    }
}

impl fmt::Debug for Gaps {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_list().entries(self).finish()
    }
}

impl<'a> IntoIterator for &'a Gaps {
    type Item = f64;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

/// Iterator over gaps, in seconds.
#[derive(Debug, Clone)]
pub struct Iter<'a> {
    /// The width of a gap, then the gaps.
    bytes: Cow<'a, [u8]>,
    /// Position of the next gap.
    at: usize,
}

impl Iter<'_> {
    fn width(&self) -> usize {
        self.bytes.first().map_or(FLOAT_WIDTH, |width| usize::from(*width).clamp(1, FLOAT_WIDTH))
    }
}

impl Iterator for Iter<'_> {
    type Item = f64;

    fn next(&mut self) -> Option<f64> {
        let width = self.width();
        let rest = self.bytes.get(self.at..).filter(|rest| rest.len() >= width)?;
        // All gaps but the last are read together with the bytes that follow: a single load is faster than a copy of
        // few bytes.
        let bits = match rest.first_chunk::<FLOAT_WIDTH>() {
            Some(bytes) => u64::from_le_bytes(*bytes) & (u64::MAX >> (8 * (FLOAT_WIDTH - width))),
            None => rest[..width].iter().rev().fold(0, |bits, byte| bits << 8 | u64::from(*byte)),
        };
        self.at += width;
        Some(if width == FLOAT_WIDTH { f64::from_bits(bits) } else { bits as f64 / 1e9 })
    }

    fn count(self) -> usize {
        self.size_hint().0
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.bytes.len().saturating_sub(self.at) / self.width();
        (left, Some(left))
    }
}

impl ExactSizeIterator for Iter<'_> {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn measured_gaps_take_three_or_four_bytes() {
        let timestamps: Vec<Timestamp> = [5, 12_000_005, 16_777_220, 16_777_220].map(Timestamp).to_vec();
        let gaps = Gaps::between(&timestamps);
        assert_eq!((gaps.len(), gaps.to_vec()), (3, vec![0.012, 0.004777215, 0.0]));
        assert_eq!(gaps.bytes.len(), 1 + 3 * 3);
        assert_eq!(Gaps::between(&[Timestamp(0), Timestamp(4_000_000_000)]).bytes.len(), 1 + 4);
        assert_eq!(size_of::<Gaps>(), 16);
    }

    #[test]
    fn few_timestamps_have_no_gaps() {
        for timestamps in [&[][..], &[Timestamp(7)]] {
            let gaps = Gaps::between(timestamps);
            assert!(gaps.is_empty() && gaps == Gaps::default() && gaps.iter().next().is_none());
        }
    }

    #[test]
    fn a_clock_that_goes_back_is_reported() {
        let gaps = Gaps::between(&[Timestamp(9), Timestamp(4), Timestamp(6)]);
        assert_eq!(gaps.to_vec(), [-5e-9, 2e-9]);
    }

    proptest! {
        #[test]
        fn all_measurements_come_back(timestamps in prop::collection::vec(any::<u64>(), 0..20), sorted: bool) {
            let mut timestamps: Vec<Timestamp> = timestamps.into_iter().map(Timestamp).collect();
            if sorted {
                timestamps.sort();
            }
            let expected: Vec<f64> = timestamps.windows(2).map(|pair| pair[1].secs_since(pair[0])).collect();
            prop_assert_eq!(Gaps::between(&timestamps).to_vec(), expected);
        }

        #[test]
        fn any_number_comes_back(gaps in prop::collection::vec(any::<f64>(), 0..20), nanos: bool) {
            let gaps: Vec<f64> = match nanos {
                true => gaps.iter().map(|gap| (gap.abs() % 1e12).round() / 1e9).collect(),
                false => gaps,
            };
            let bits = |gaps: &[f64]| gaps.iter().map(|gap| gap.to_bits()).collect::<Vec<_>>();
            let packed = Gaps::from(gaps.as_slice());
            prop_assert_eq!(packed.len(), gaps.len());
            prop_assert_eq!(bits(&packed.to_vec()), bits(&gaps));
        }
    }
}
