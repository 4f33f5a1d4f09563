//! The engine's steps, found in the arrival times of tokens: all sequences of a batch get their tokens together.

use super::trace::Traced;

/// A step that was seen from its beginning to its end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// Seconds it took.
    pub seconds: f64,
    /// Prompt tokens in it.
    pub prefill: f64,
    /// Sequences in it.
    pub sequences: f64,
    /// Context of all of them after it.
    pub kv: f64,
    /// Prompt tokens, each times the context that it looks at.
    pub attention: f64,
}

/// A request that came to an idle engine: its first token took this long.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Alone {
    /// Seconds to the first token.
    pub ttft: f64,
    /// Tokens of the prompt.
    pub prompt: f64,
}

/// What was found in one run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Found {
    /// Steps with all that was in them.
    pub steps: Vec<Step>,
    /// First tokens that waited for nobody.
    pub alone: Vec<Alone>,
    /// Steps left out because a sequence had no token in them: events that came together, or a preemption.
    pub unclear: usize,
    /// The most sequences that had a token at once.
    pub widest: usize,
}

/// Tokens that came together.
#[derive(Debug)]
struct Cluster {
    /// When the first of them came.
    at: f64,
    /// When the last of them came.
    until: f64,
    /// Request and which of its tokens.
    tokens: Vec<(usize, usize)>,
}

/// Finds the steps of a run; no step has more than `budget` tokens.
pub fn find(traced: &[Traced], budget: usize) -> Found {
    let clusters = clusters(traced);
    let mut found = Found::default();
    for (at, cluster) in clusters.iter().enumerate() {
        found.widest = found.widest.max(cluster.tokens.len());
        let before = at.checked_sub(1).map(|before| &clusters[before]);
        match before.filter(|before| is_busy(traced, before.until)) {
            Some(before) => match step(traced, before, cluster, budget) {
                Some(step) => found.steps.push(step),
                None => found.unclear += 1,
            },
            None => found.alone.extend(alone(traced, cluster)),
        }
    }
    found
}

/// Groups tokens by time: a group ends with a gap, or where a request would have two tokens in it.
fn clusters(traced: &[Traced]) -> Vec<Cluster> {
    let numbered = |(request, one): (usize, &Traced)| {
        one.tokens.iter().enumerate().map(move |(place, at)| (*at, request, place)).collect::<Vec<_>>()
    };
    let mut tokens: Vec<(f64, usize, usize)> = traced.iter().enumerate().flat_map(numbered).collect();
    tokens.sort_by(|one, other| one.0.total_cmp(&other.0));
    let gap = gap(traced);
    let mut clusters: Vec<Cluster> = Vec::new();
    let (mut last, mut seen) = (f64::NEG_INFINITY, vec![usize::MAX; traced.len()]);
    for (at, request, place) in tokens {
        let current = clusters.len().wrapping_sub(1);
        if at - last > gap || (!clusters.is_empty() && seen[request] == current) {
            clusters.push(Cluster { at, until: at, tokens: Vec::new() });
        }
        let number = clusters.len() - 1;
        seen[request] = number;
        clusters[number].until = at;
        clusters[number].tokens.push((request, place));
        last = at;
    }
    clusters
}

/// Half of what nearly the shortest time between two tokens of a request is.
fn gap(traced: &[Traced]) -> f64 {
    let mut gaps: Vec<f64> = traced
        .iter()
        .flat_map(|one| one.tokens.windows(2).map(|pair| pair[1] - pair[0]))
        .filter(|gap| *gap > 0.0)
        .collect();
    if gaps.is_empty() {
        return 0.0;
    }
    gaps.sort_by(f64::total_cmp);
    gaps[gaps.len() / 20] / 2.0
}

/// Whether an answer was under way and went on.
fn is_busy(traced: &[Traced], at: f64) -> bool {
    traced.iter().any(|one| {
        let (first, last) = (one.tokens.first().copied(), one.tokens.last().copied());
        first.is_some_and(|first| first <= at + 1e-9) && last.is_some_and(|last| last > at + 1e-9)
    })
}

/// The step that ended with `cluster` and began with the one before; none where a sequence is missing from it.
fn step(traced: &[Traced], before: &Cluster, cluster: &Cluster, budget: usize) -> Option<Step> {
    let running = |one: &Traced| {
        let place = one.tokens.partition_point(|token| *token <= before.until + 1e-9);
        // In the middle of its answer at the beginning of the step.
        place > 0 && place < one.tokens.len()
    };
    let expected = traced.iter().filter(|one| running(one)).count();
    let mut step = Step { seconds: cluster.at - before.at, prefill: 0.0, sequences: 0.0, kv: 0.0, attention: 0.0 };
    let mut went_on = 0;
    for (request, place) in &cluster.tokens {
        let prompt = traced[*request].prompt as f64;
        step.sequences += 1.0;
        if *place > 0 {
            went_on += 1;
            step.kv += prompt + *place as f64;
        } else {
            step.prefill += prompt;
            step.kv += prompt;
            step.attention += prompt * (prompt + 1.0) / 2.0;
        }
    }
    // Prompts of more than a step's tokens were begun in steps that told nothing of it.
    let fits = step.prefill + went_on as f64 <= budget as f64;
    (went_on == expected && fits && step.seconds > 0.0).then_some(step)
}

/// The one request whose first token this is, when it came to an idle engine.
fn alone(traced: &[Traced], cluster: &Cluster) -> Option<Alone> {
    match cluster.tokens.as_slice() {
        [(request, 0)] => {
            let one = &traced[*request];
            let others = traced.iter().enumerate().any(|(at, other)| {
                at != *request && other.sent < cluster.at && other.tokens.last().is_some_and(|last| *last > one.sent)
            });
            (!others).then(|| Alone { ttft: one.tokens[0] - one.sent, prompt: one.prompt as f64 })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traced(sent: f64, prompt: u64, tokens: &[f64]) -> Traced {
        Traced { sent, prompt, tokens: tokens.to_vec() }
    }

    #[test]
    fn tokens_that_come_together_are_a_step() {
        let run = [traced(0.0, 10, &[0.10, 0.12, 0.14001, 0.17]), traced(0.13, 50, &[0.17002, 0.19])];
        let found = find(&run, 8192);
        assert_eq!(found.alone, [Alone { ttft: 0.10, prompt: 10.0 }]);
        assert_eq!((found.steps.len(), found.unclear, found.widest), (4, 0, 2));
        let mixed = found.steps[2];
        assert!((mixed.seconds - 0.03).abs() < 1e-3);
        assert_eq!((mixed.prefill, mixed.sequences, mixed.kv, mixed.attention), (50.0, 2.0, 13.0 + 50.0, 1275.0));
    }

    #[test]
    fn a_step_without_a_token_of_every_sequence_is_left_out() {
        let run = [traced(0.0, 1, &[0.1, 0.2, 0.3, 0.4]), traced(0.0, 1, &[0.1, 0.2, 0.4])];
        let found = find(&run, 8192);
        assert_eq!((found.steps.len(), found.unclear), (2, 1));
    }
}
