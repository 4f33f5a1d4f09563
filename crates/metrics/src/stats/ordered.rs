//! Order statistics without a copy of the values. Values are counted by their leading bits, then those that share the
//! bits of a wanted one by the next: after four passes the wanted ones are known exactly.

/// Bits of the radix of one pass.
const BITS: u32 = 16;

/// The values at `ranks` of the sorted sequence. Ranks beyond the last return the last.
pub(crate) fn at_ranks<I: Iterator<Item = f64>>(values: impl Fn() -> I, ranks: &[usize]) -> Vec<f64> {
    // Of each wanted value: its leading bits, and its rank among those that share them.
    let mut known: Vec<(u64, usize)> = ranks.iter().map(|&rank| (0, rank)).collect();
    for shift in (0..u64::BITS / BITS).rev().map(|digit| digit * BITS) {
        let counts = counts(&values, &known, shift);
        for (bits, rank) in &mut known {
            let digits = counts.iter().find(|(shared, _)| shared == bits).map_or(&[][..], |(_, digits)| digits);
            *bits = (*bits << BITS) | digit_at(digits, rank);
        }
    }
    known.into_iter().map(|(bits, _)| value(bits)).collect()
}

/// Frequencies of each next digit after each of the known leading bits.
fn counts<I: Iterator<Item = f64>>(
    values: &impl Fn() -> I,
    known: &[(u64, usize)],
    shift: u32,
) -> Vec<(u64, Vec<usize>)> {
    let mut shared: Vec<u64> = known.iter().map(|(bits, _)| *bits).collect();
    shared.sort_unstable();
    shared.dedup();
    let mut counts: Vec<(u64, Vec<usize>)> = shared.into_iter().map(|bits| (bits, vec![0; 1 << BITS])).collect();
    for key in values().map(key) {
        let leading = key.checked_shr(shift + BITS).unwrap_or(0);
        if let Ok(found) = counts.binary_search_by_key(&leading, |(bits, _)| *bits) {
            counts[found].1[(key >> shift) as usize & ((1 << BITS) - 1)] += 1;
        }
    }
    counts
}

/// The digit at a rank, which becomes the rank among those that share the digit.
fn digit_at(digits: &[usize], rank: &mut usize) -> u64 {
    let mut last = 0;
    for (digit, &count) in digits.iter().enumerate().filter(|(_, count)| **count > 0) {
        last = digit as u64;
        if *rank < count {
            return last;
        }
        *rank -= count;
    }
    *rank = usize::MAX;
    last
}

/// Whole numbers in the order of the values, by `total_cmp`.
fn key(value: f64) -> u64 {
    let bits = value.to_bits();
    if value.is_sign_negative() { !bits } else { bits | (1 << 63) }
}

fn value(key: u64) -> f64 {
    f64::from_bits(if key >> 63 == 1 { key & !(1 << 63) } else { !key })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn ranks_are_those_of_the_sorted_list(mut values in prop::collection::vec(any::<f64>(), 1..60), same: bool) {
            if same {
                values.iter_mut().for_each(|value| *value = (*value % 3.0).round());
            }
            let ranks: Vec<usize> = (0..values.len()).collect();
            let found = at_ranks(|| values.iter().copied(), &ranks);
            values.sort_unstable_by(f64::total_cmp);
            let bits = |values: &[f64]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
            prop_assert_eq!(bits(&found), bits(&values));
            prop_assert_eq!(at_ranks(|| values.iter().copied(), &[values.len() + 5])[0].to_bits(), bits(&values)[values.len() - 1]);
        }
    }
}
