//! The times between the token events of one request, in little space: most of the memory of a long run's result.

use std::borrow::Cow;
use std::fmt;

use tacho_core::Timestamp;

/// Whole nanoseconds up to here are exact as seconds, there and back.
const EXACT: f64 = 9e15;
/// The width at which values are kept as they are.
const PLAIN: usize = size_of::<f64>();

/// Gaps in seconds. Those that are whole nanoseconds, as all measured ones are, take the bytes that the largest needs:
/// three up to 16 ms, four up to four seconds.
#[derive(Clone, Default, PartialEq)]
pub struct Gaps {
    /// The width of a gap, then the gaps; empty where there are none.
    bytes: Box<[u8]>,
}

impl Gaps {
    /// The gaps between timestamps.
    pub fn between(timestamps: &[Timestamp]) -> Self {
        let pairs = || timestamps.windows(2);
        match pairs().all(|pair| pair[0] <= pair[1] && ((pair[1].0 - pair[0].0) as f64) < EXACT) {
            true => Self::whole(timestamps.len().saturating_sub(1), pairs().map(|pair| pair[1].0 - pair[0].0)),
            false => pairs().map(|pair| pair[1].secs_since(pair[0])).collect::<Vec<f64>>().into(),
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.bytes.split_first().map_or(0, |(&width, gaps)| gaps.len() / usize::from(width))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Each of them in order.
    pub fn iter(&self) -> Iter<'_> {
        Iter { bytes: Cow::Borrowed(&self.bytes), at: 1 }
    }

    /// Iterates over borrowed or owned gaps.
    pub(crate) fn iter_of(gaps: Cow<'_, Gaps>) -> Iter<'_> {
        match gaps {
            Cow::Borrowed(gaps) => gaps.iter(),
            Cow::Owned(gaps) => Iter { bytes: Cow::Owned(gaps.bytes.into_vec()), at: 1 },
        }
    }

    /// As they are kept.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Back from what they were kept as.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        Gaps { bytes: bytes.into() }
    }

    /// All of them as a list.
    pub fn to_vec(&self) -> Vec<f64> {
        self.iter().collect()
    }

    fn whole(count: usize, nanos: impl Iterator<Item = u64> + Clone) -> Self {
        let most = nanos.clone().max().unwrap_or(0);
        let width = (PLAIN - most.leading_zeros() as usize / 8).max(1);
        Self::packed(count, width, nanos.map(u64::to_le_bytes))
    }

    fn packed(count: usize, width: usize, values: impl Iterator<Item = [u8; PLAIN]>) -> Self {
        if count == 0 {
            return Gaps::default();
        }
        let mut bytes = Vec::with_capacity(1 + count * width);
        bytes.push(width as u8);
        values.for_each(|value| bytes.extend_from_slice(&value[..width]));
        Gaps { bytes: bytes.into_boxed_slice() }
    }
}

/// The nanoseconds of a gap that is exactly as many.
fn nanos(gap: f64) -> Option<u64> {
    let nanos = (gap * 1e9).round();
    // The zero with a sign would come back without it.
    let whole = gap.is_sign_positive() && nanos < EXACT && gap.to_bits() == (nanos / 1e9).to_bits();
    whole.then_some(nanos as u64)
}

impl From<&[f64]> for Gaps {
    fn from(gaps: &[f64]) -> Self {
        match gaps.iter().all(|gap| nanos(*gap).is_some()) {
            true => Self::whole(gaps.len(), gaps.iter().filter_map(|gap| nanos(*gap))),
            false => Self::packed(gaps.len(), PLAIN, gaps.iter().map(|gap| gap.to_le_bytes())),
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

/// Gaps, one after the other, in seconds.
#[derive(Debug, Clone)]
pub struct Iter<'a> {
    /// The width of a gap, then the gaps.
    bytes: Cow<'a, [u8]>,
    /// Where the next one begins.
    at: usize,
}

impl Iter<'_> {
    fn width(&self) -> usize {
        self.bytes.first().map_or(PLAIN, |width| usize::from(*width).clamp(1, PLAIN))
    }
}

impl Iterator for Iter<'_> {
    type Item = f64;

    fn next(&mut self) -> Option<f64> {
        let width = self.width();
        let rest = self.bytes.get(self.at..).filter(|rest| rest.len() >= width)?;
        // All gaps but the last are read with what follows them, for a copy of so few bytes takes longer than the number.
        let bits = match rest.first_chunk::<PLAIN>() {
            Some(bytes) => u64::from_le_bytes(*bytes) & (u64::MAX >> (8 * (PLAIN - width))),
            None => rest[..width].iter().rev().fold(0, |bits, byte| bits << 8 | u64::from(*byte)),
        };
        self.at += width;
        Some(if width == PLAIN { f64::from_bits(bits) } else { bits as f64 / 1e9 })
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
        fn whatever_is_measured_comes_back(timestamps in prop::collection::vec(any::<u64>(), 0..20), sorted: bool) {
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
