//! The scheduler's limits, where a run has reached them: what never grows though more is waiting.

use super::steps::clusters;
use super::trace::Traced;

/// Steps that must have had as many sequences as any for that to be a limit.
const STEPS: usize = 5;

/// The most sequences that ran at once, where others waited for their turn meanwhile.
pub fn sequences(traced: &[Traced]) -> Option<usize> {
    let clusters = clusters(traced);
    let widest = clusters.iter().map(|cluster| cluster.tokens.len()).max()?;
    let mut at_limit = 0;
    for pair in clusters.windows(3) {
        let [first, middle, last] = pair else { continue };
        let full = pair.iter().all(|cluster| cluster.tokens.len() == widest);
        // Sent before two whole steps, and without a token after them.
        let waits = |one: &Traced| one.sent < first.at && one.tokens.first().is_some_and(|token| *token > last.until);
        // With prompts in these steps it could be their tokens that nobody else fits into.
        let steady = middle.began().count() + last.began().count() <= widest / 4;
        at_limit += usize::from(full && steady && traced.iter().any(waits));
    }
    (at_limit >= STEPS && widest > 1).then_some(widest)
}

/// The most tokens in a step, by how many prompts came through each while more of them waited: the roundest number that
/// explains them.
pub fn tokens(traced: &[Traced]) -> Option<usize> {
    let clusters = clusters(traced);
    let limit = sequences(traced).unwrap_or(usize::MAX);
    let lead = traced.iter().filter_map(|one| Some(one.tokens.first()? - one.sent)).fold(f64::INFINITY, f64::min);
    let (mut low, mut high) = (0.0_f64, f64::INFINITY);
    let mut chain: Option<Chain> = None;
    for pair in clusters.windows(2) {
        let (before, cluster) = (&pair[0], &pair[1]);
        let next = waiting(traced, before.at - lead, cluster.until);
        let began: f64 = cluster.began().map(|at| traced[at].prompt as f64).sum();
        let decoded = cluster.tokens.iter().filter(|(_, place)| *place > 0).count() as f64;
        // Of the first prompt of a chain some may have been computed before it.
        let first = cluster.began().next().map_or(0.0, |at| traced[at].prompt as f64);
        // What a step has held is no limit of it, whether or not somebody waited.
        low = low.max(began + decoded - first);
        let Some(next) = next.filter(|_| began > 0.0 && cluster.tokens.len() < limit) else {
            chain = None;
            continue;
        };
        let mut on = chain.unwrap_or(Chain { steps: 0.0, tokens: 0.0, offset: first });
        on.steps += 1.0;
        on.tokens += began + decoded;
        low = low.max((on.tokens - on.offset) / on.steps);
        high = high.min((on.tokens + next) / on.steps);
        chain = Some(on);
    }
    (low < high && high.is_finite()).then(|| roundest(low, high)).flatten()
}

/// Steps that follow one another, all of them full.
#[derive(Clone, Copy)]
struct Chain {
    steps: f64,
    tokens: f64,
    offset: f64,
}

/// The prompt that is next: sent before, and without a token until.
fn waiting(traced: &[Traced], before: f64, until: f64) -> Option<f64> {
    let waits = |one: &&Traced| one.sent < before && one.tokens.first().is_some_and(|token| *token > until);
    let next = traced.iter().filter(waits).min_by(|one, other| one.sent.total_cmp(&other.sent))?;
    Some(next.prompt as f64)
}

/// The number between the two that the largest power of two divides.
fn roundest(low: f64, high: f64) -> Option<usize> {
    let (low, high) = (low.ceil().max(1.0) as usize, high.ceil() as usize);
    let mut power = 1usize << 20;
    while power > 0 {
        let number = low.div_ceil(power) * power;
        if number < high {
            return Some(number);
        }
        power >>= 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Prompts of 100 tokens that are sent at once, of which so many come through each step of 10 ms.
    fn rush(sent: f64, per_step: &[usize]) -> Vec<Traced> {
        let steps = per_step.iter().enumerate().flat_map(|(step, count)| std::iter::repeat_n(step, *count));
        let one = |step: usize| {
            let first = sent + 0.02 + 0.01 * step as f64;
            Traced { sent, prompt: 100, tokens: (0..20).map(|place| first + 0.01 * f64::from(place)).collect() }
        };
        steps.map(one).collect()
    }

    #[test]
    fn a_step_that_held_more_disproves_a_limit() {
        let full = rush(0.0, &[4, 4, 4, 4, 4]);
        // Four prompts to a step and some of the fifth, or of the first some in the step before.
        let found = tokens(&full).unwrap();
        assert!((300..520).contains(&found), "{found}");
        let late: Vec<Traced> = full.iter().cloned().chain(rush(1.0, &[1, 20])).collect();
        assert_eq!(tokens(&late), None, "one step of 2,000 tokens");
    }

    #[test]
    fn the_roundest_number_is_taken() {
        assert_eq!(roundest(990.0, 1043.2), Some(1024));
        assert_eq!(roundest(8100.0, 8300.0), Some(8192));
        assert_eq!(roundest(4.2, 4.9), None);
    }
}
