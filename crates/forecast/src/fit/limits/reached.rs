//! Scheduler limits that runs reached. Interference must not look like a limit: it is inferred only if many steps are full
//! at the same number while requests are queued; otherwise there is only a lower bound.

use super::budget::Budget;
pub use super::budget::Held;
use super::queue::{Queue, Run};
use crate::{fit::steps::Cluster, fit::trace::Traced};

/// Finished sequences after which the batch must have been refilled.
const MIN_REFILLS: usize = 5;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reached {
    pub sequences: Option<usize>,
    pub tokens: Option<Held>,
    /// Whether prefill is chunked.
    pub splits: Option<bool>,
    /// Most sequences that had a token at once: a lower bound.
    pub widest: usize,
    /// Most tokens that a step certainly held: a lower bound.
    pub most_tokens: usize,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KnownBefore {
    pub sequences: Option<usize>,
    /// Whether prefill is chunked.
    pub splits: Option<bool>,
}

/// Infers limits from several runs against one server.
pub fn reached(runs: &[Vec<Traced>], known: KnownBefore) -> Reached {
    let runs: Vec<Run> = runs.iter().map(|traced| Run::of(traced)).collect();
    let widest = runs.iter().map(Run::widest).max().unwrap_or(0);
    let sequences = sequences(&runs, widest);
    let limit = known.sequences.or(sequences).unwrap_or(usize::MAX);
    let mut all = Budget::default();
    runs.iter().for_each(|run| all.add_run(run, limit));
    let (tokens, splits) = match all.infer(known.splits) {
        (None, _) => agreed(&runs, limit, &all, known),
        found => found,
    };
    Reached { sequences, tokens, splits, widest, most_tokens: all.most_tokens() }
}

/// The limit that the runs agree on individually: one run with interference contradicts all of them together.
fn agreed(runs: &[Run], limit: usize, all: &Budget, known: KnownBefore) -> (Option<Held>, Option<bool>) {
    let idle_ttfts = |run: &Run| {
        let mut budget = Budget::default();
        budget.add_run(run, limit);
        let (held, splits) = budget.infer(known.splits);
        held.map(|held| (held, splits))
    };
    let found: Vec<(Held, Option<bool>)> = runs.iter().filter_map(idle_ttfts).collect();
    let same = |(held, _): &(Held, Option<bool>)| held.limit == found[0].0.limit && held.limit >= all.most_tokens();
    match found.first() {
        Some((held, splits)) if found.iter().all(same) => (Some(*held), *splits),
        _ => (None, None),
    }
}

/// `max_num_seqs`, if reached: with queued requests most batches have the maximum width, and are refilled when sequences
/// finish. A slow front end shows neither.
fn sequences(runs: &[Run], widest: usize) -> Option<usize> {
    let (mut waited, mut full, mut ends, mut refills) = (0, 0, 0, 0);
    for run in runs.iter().filter(|run| run.widest() == widest) {
        let mut queue = Queue::new(run.traced);
        for steps in run.clusters.windows(3) {
            let [end, next, later] = steps else { continue };
            if queue.first(end.at - run.lead, later.until).is_none() {
                continue;
            }
            waited += 1;
            if end.tokens.len() < widest {
                continue;
            }
            full += 1;
            if run.ended(end) == 0 {
                continue;
            }
            ends += 1;
            // With asynchronous scheduling a slot is refilled one step later.
            let refilled = |cluster: &Cluster| cluster.tokens.len() == widest && cluster.began().next().is_some();
            refills += usize::from(refilled(next) || refilled(later));
        }
    }
    (widest > 1 && refills >= MIN_REFILLS && 3 * refills >= 2 * ends && 2 * full >= waited).then_some(widest)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Prompts sent at once, of which these numbers finish in each step of 10 ms.
    fn rush(sent: f64, prompts: &[u64], per_step: &[usize]) -> Vec<Traced> {
        let steps = per_step.iter().enumerate().flat_map(|(step, count)| std::iter::repeat_n(step, *count));
        let one = |(step, prompt): (usize, &u64)| {
            let first = sent + 0.02 + 0.01 * step as f64;
            Traced { sent, prompt: *prompt, tokens: (0..40).map(|index| first + 0.01 * f64::from(index)).collect() }
        };
        steps.zip(prompts.iter().cycle()).map(one).collect()
    }

    #[test]
    fn few_steps_or_wide_bounds_give_no_limit() {
        let infer = |run: Vec<Traced>| reached(&[run], KnownBefore::default());
        // Four prompts per step: the budget is at least four, and less than five.
        let alike = infer(rush(0.0, &[100], &[4; 12]));
        assert_eq!((alike.tokens, alike.splits), (None, None));
        assert!(alike.most_tokens >= 300, "{alike:?}");
        // One per step is the pattern of a slow front end.
        assert_eq!(infer(rush(0.0, &[90, 100, 105, 98], &[1; 30])).tokens, None);
        // As many as had arrived by then.
        assert_eq!(infer(rush(0.0, &[80, 150, 110], &[6, 9, 7, 5, 8, 10, 6, 7])).tokens, None);
    }
}
