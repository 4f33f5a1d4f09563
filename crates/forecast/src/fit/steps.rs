//! Engine steps, reconstructed from token arrival times: all sequences of a batch get their tokens together.

use std::borrow::Borrow;

use super::{memory_bound::ComputeBound, trace::Traced};
use tacho_engine::EngineSpec;

/// Requests sent within this many seconds form a burst.
const BURST_S: f64 = 0.01;
const MIN_BURST: usize = 4;

/// A step that was observed from start to end.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Step {
    /// Its end, in seconds.
    pub at: f64,
    pub seconds: f64,
    /// Number of steps: several where they are only known together.
    pub count: f64,
    /// Prompt tokens in it.
    pub prefill: f64,
    /// Compute-bound prefill tokens.
    pub computed: f64,
    /// Compute-bound prefill tokens for each candidate ridge point.
    pub compute_bound: ComputeBound,
    pub sequences: f64,
    /// 1 for a batch-1 decode step; sums over several steps.
    pub singles: f64,
    /// 1 for a prefill step after another under asynchronous scheduling; sums over several steps.
    pub back_to_back_prefill: f64,
    /// Context tokens of all sequences after it.
    pub kv: f64,
    /// Sum over prompt tokens of the context that each attends to.
    pub attention: f64,
    /// Its window: steps of a window share a slowdown.
    pub window: usize,
}

impl Step {
    pub(super) fn one() -> Step {
        Step { count: 1.0, ..Step::default() }
    }

    /// The regressors of its duration.
    pub(super) fn row(&self) -> [f64; 6] {
        [self.count, self.computed, self.sequences, self.kv, self.attention, self.back_to_back_prefill]
    }

    pub(super) fn add(&mut self, next: &Step) {
        self.at = next.at;
        self.seconds += next.seconds;
        self.count += next.count;
        self.prefill += next.prefill;
        self.computed += next.computed;
        self.compute_bound.add(&next.compute_bound);
        self.sequences += next.sequences;
        self.singles += next.singles;
        self.back_to_back_prefill += next.back_to_back_prefill;
        self.kv += next.kv;
        self.attention += next.attention;
    }

    /// Adds `tokens` of a prompt of which `before` are computed.
    pub(super) fn add_prompt(&mut self, before: f64, tokens: f64) {
        self.sequences += 1.0;
        self.prefill += tokens;
        self.computed += tokens;
        self.kv += before + tokens;
        self.attention += tokens * (before + (tokens + 1.0) / 2.0);
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct IdleTtft {
    /// Time of the first token.
    pub at: f64,
    pub ttft: f64,
    pub prompt: f64,
    pub window: usize,
}

/// A burst of requests to an idle engine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Burst {
    pub count: f64,
    /// Seconds until the first of their tokens.
    pub first: f64,
    pub step: Step,
    /// Tokens of the prompts that were not in it.
    pub rest: f64,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Found {
    /// Steps with known contents, in order.
    pub steps: Vec<Step>,
    pub idle_ttfts: Vec<IdleTtft>,
    pub bursts: Vec<Burst>,
    /// Excluded steps: a sequence had no token in them (coalesced events, a preemption), or the prefill in them is
    /// unknown.
    pub unclear: usize,
    /// Most sequences that had a token at once.
    pub widest: usize,
    /// Seconds between tokens of a cluster, one value for each step of three or more.
    pub token_spacing: Vec<f64>,
}

/// Tokens that arrived together.
#[derive(Debug)]
pub(crate) struct Cluster {
    /// Time of the first of them.
    pub(crate) at: f64,
    /// Time of the last of them.
    pub(crate) until: f64,
    /// Request and index of the token.
    pub(crate) tokens: Vec<(usize, usize)>,
}

impl Cluster {
    /// The requests whose first token is in it.
    pub(super) fn began(&self) -> impl Iterator<Item = usize> {
        self.tokens.iter().filter(|(_, index)| *index == 0).map(|(request, _)| *request)
    }
}

pub fn find(traced: &[Traced], limits: &EngineSpec) -> Found {
    let Reading { mut found, steps, .. } = read(traced, limits, 0);
    found.steps = steps.into_iter().flatten().collect();
    found
}

/// A run token by token: clusters, and the step of each where its contents are known.
pub(super) struct Reading {
    pub(super) clusters: Vec<Cluster>,
    pub(super) steps: Vec<Option<Step>>,
    /// Whether a step may have parts of prompts: the first part may be in an earlier one.
    pub(super) has_parts: Vec<bool>,
    /// Everything except the steps.
    pub(super) found: Found,
}

impl Reading {
    /// Returns whether a step has prefill, or may have because its contents are not fully known; a missing one has
    /// none.
    pub(super) fn has_prompts(&self, at: usize) -> bool {
        self.steps.get(at).is_some_and(|step| step.is_none_or(|step| step.prefill > 0.0))
    }

    pub(super) fn tokens(&self, at: usize) -> f64 {
        let prefill = self.steps[at].map_or(0.0, |step| step.prefill);
        prefill + (self.clusters[at].tokens.len() - self.clusters[at].began().count()) as f64
    }
}

/// Reads a run; a step was scheduled when the previous one had ended, or `ahead` steps before that.
pub(super) fn read(traced: &[Traced], limits: &EngineSpec, ahead: usize) -> Reading {
    let clusters = clusters(traced);
    let mut watch = Watch::new(traced, limits, quickest(traced));
    let (mut steps, mut has_parts) = (Vec::with_capacity(clusters.len()), Vec::with_capacity(clusters.len()));
    for (at, cluster) in clusters.iter().enumerate() {
        watch.arrive(cluster.at);
        let is_whole = cluster.began().all(|request| watch.computed[request] == Some(0.0));
        let whole: f64 = cluster.began().map(|request| traced[request].prompt as f64).sum();
        let chosen = clusters[at.saturating_sub(1 + ahead)].at;
        let step = watch.read_step(at.checked_sub(1).map(|before| &clusters[before]), cluster, chosen);
        has_parts.push(!is_whole || step.is_some_and(|step| step.prefill != whole));
        steps.push(step);
        watch.take(cluster);
    }
    let found = watch.found;
    Reading { clusters, steps, has_parts, found }
}

/// A request that was sent less than this before a step may not be in it.
pub(super) fn quickest(traced: &[Traced]) -> f64 {
    let first = |one: &Traced| one.tokens.first().map(|token| token - one.sent);
    traced.iter().filter_map(first).fold(f64::INFINITY, f64::min)
}

/// State of a run's requests between two steps.
struct Watch<'a> {
    traced: &'a [Traced],
    limits: &'a EngineSpec,
    lead: f64,
    /// Requests in send order, and how many were sent.
    order: Vec<usize>,
    sent: usize,
    /// Sent, without a token; in send order.
    pending: Vec<usize>,
    /// Requests in the decode phase.
    running: usize,
    /// Prompt tokens computed before the step with the first token; `None` where unknown.
    computed: Vec<Option<f64>>,
    found: Found,
}

impl<'a> Watch<'a> {
    fn new(traced: &'a [Traced], limits: &'a EngineSpec, lead: f64) -> Self {
        let mut order: Vec<usize> = (0..traced.len()).filter(|at| !traced[*at].tokens.is_empty()).collect();
        order.sort_by(|one, other| traced[*one].sent.total_cmp(&traced[*other].sent));
        let computed = vec![Some(0.0); traced.len()];
        let found = Found::default();
        Watch { traced, limits, lead, order, sent: 0, pending: Vec::new(), running: 0, computed, found }
    }

    fn arrive(&mut self, now: f64) {
        while let Some(&at) = self.order.get(self.sent).filter(|at| self.traced[**at].sent < now) {
            self.pending.push(at);
            self.sent += 1;
        }
    }

    fn read_step(&mut self, before: Option<&Cluster>, cluster: &Cluster, chosen: f64) -> Option<Step> {
        self.found.widest = self.found.widest.max(cluster.tokens.len());
        if let [_, _, _, ..] = cluster.tokens.as_slice() {
            self.found.token_spacing.push((cluster.until - cluster.at) / (cluster.tokens.len() - 1) as f64);
        }
        match before.filter(|_| self.running > 0) {
            Some(before) => {
                let step = self.step(before, cluster, chosen);
                self.found.unclear += usize::from(step.is_none());
                step
            }
            None => {
                let idle_since = before.map_or(f64::NEG_INFINITY, |before| before.until);
                self.found.idle_ttfts.extend(self.idle_ttfts(idle_since, cluster));
                self.found.bursts.extend(self.burst(idle_since, cluster));
                None
            }
        }
    }

    /// The step that ended with `cluster` and began with the one before; `None` where its contents are not fully known.
    fn step(&mut self, before: &Cluster, cluster: &Cluster, chosen: f64) -> Option<Step> {
        let mut step = Step { at: cluster.at, seconds: cluster.at - before.at, ..Step::one() };
        let (mut went_on, mut known) = (0, true);
        for (request, index) in &cluster.tokens {
            let prompt = self.traced[*request].prompt as f64;
            match (index, self.computed[*request]) {
                (0, Some(done)) => step.add_prompt(done, prompt - done),
                (0, None) => known = false,
                _ => {
                    went_on += 1;
                    step.sequences += 1.0;
                    step.kv += prompt + *index as f64;
                }
            }
        }
        let left = self.limits.max_num_batched_tokens as f64 - step.prefill - went_on as f64;
        let known = self.fill(&mut step, cluster, chosen, left) && known;
        step.compute_bound = ComputeBound::of(step.prefill, went_on as f64);
        step.singles = f64::from(u8::from(step.prefill == 0.0 && went_on == 1));
        (went_on == self.running && known && left >= 0.0 && step.seconds > 0.0).then_some(step)
    }

    /// Assigns the remaining token budget to the first queued prompt: chunked prefill fills every step.
    fn fill(&mut self, step: &mut Step, cluster: &Cluster, began: f64, left: f64) -> bool {
        if left <= 0.0 || cluster.tokens.len() >= self.limits.max_num_seqs {
            return true;
        }
        let began_here: Vec<usize> = cluster.began().collect();
        let Some(&next) = self.pending.iter().find(|at| !began_here.contains(at)) else { return true };
        let (one, done) = (&self.traced[next], self.computed[next]);
        let rest = done.map_or(f64::INFINITY, |done| one.prompt as f64 - done);
        // A queued prompt that fits would have finished here.
        if one.sent >= began || rest <= left || !self.limits.enable_chunked_prefill {
            return true;
        }
        let sure = began - one.sent > self.lead;
        match done.filter(|_| sure) {
            Some(done) => {
                step.add_prompt(done, left);
                self.computed[next] = Some(done + left);
            }
            None => self.computed[next] = None,
        }
        done.is_some() && sure
    }

    /// The TTFT of the single request whose first token this is, if it came to an idle engine.
    fn idle_ttfts(&self, idle_since: f64, cluster: &Cluster) -> Option<IdleTtft> {
        match (cluster.tokens.as_slice(), self.pending.as_slice()) {
            ([(request, 0)], [_]) => {
                let one = &self.traced[*request];
                let at = one.tokens[0];
                (one.sent >= idle_since).then_some(IdleTtft {
                    at,
                    ttft: at - one.sent,
                    prompt: one.prompt as f64,
                    window: 0,
                })
            }
            _ => None,
        }
    }

    /// The queued requests, if they form a burst to an idle engine.
    fn burst(&self, idle_since: f64, cluster: &Cluster) -> Option<Burst> {
        let sent = || self.pending.iter().map(|at| self.traced[*at].sent);
        let (first, last) = (sent().fold(f64::INFINITY, f64::min), sent().fold(0.0, f64::max));
        if self.pending.len() < MIN_BURST || first < idle_since || last - first > BURST_S {
            return None;
        }
        let mut step = Step::one();
        cluster.began().for_each(|at| step.add_prompt(0.0, self.traced[at].prompt as f64));
        let all: f64 = self.pending.iter().map(|at| self.traced[*at].prompt as f64).sum();
        Some(Burst { count: self.pending.len() as f64, first: cluster.at - first, step, rest: all - step.prefill })
    }

    /// Updates the counts of running and queued requests.
    fn take(&mut self, cluster: &Cluster) {
        self.pending.retain(|at| !cluster.tokens.contains(&(*at, 0)));
        for (request, index) in &cluster.tokens {
            let last = index + 1 == self.traced[*request].tokens.len();
            self.running += usize::from(*index == 0);
            self.running -= usize::from(last);
        }
    }
}

/// Groups tokens by time: a cluster ends with a gap, or where a request would have two tokens in it.
pub(crate) fn clusters<T: Borrow<Traced>>(traced: &[T]) -> Vec<Cluster> {
    let gap = gap(traced);
    let mut tokens: Vec<(f64, u32, u32)> = Vec::new();
    for (request, one) in traced.iter().enumerate() {
        let numbered = one.borrow().tokens.iter().enumerate();
        tokens.extend(numbered.map(|(index, at)| (*at, request as u32, index as u32)));
    }
    tokens.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.2.cmp(&other.2)));
    let mut clusters: Vec<Cluster> = Vec::new();
    let (mut last, mut seen) = (f64::NEG_INFINITY, vec![usize::MAX; traced.len()]);
    for (at, request, index) in tokens {
        let (request, index) = (request as usize, index as usize);
        let current = clusters.len().wrapping_sub(1);
        if at - last > gap || (!clusters.is_empty() && seen[request] == current) {
            clusters.push(Cluster { at, until: at, tokens: Vec::new() });
        }
        let number = clusters.len() - 1;
        seen[request] = number;
        clusters[number].until = at;
        clusters[number].tokens.push((request, index));
        last = at;
    }
    clusters
}

/// Half of nearly the shortest inter-token time of a request.
fn gap<T: Borrow<Traced>>(traced: &[T]) -> f64 {
    let mut gaps: Vec<f64> = traced
        .iter()
        .flat_map(|one| one.borrow().tokens.windows(2).map(|pair| pair[1] - pair[0]))
        .filter(|gap| *gap > 0.0)
        .collect();
    if gaps.is_empty() {
        return 0.0;
    }
    let rank = gaps.len() / 20;
    *gaps.select_nth_unstable_by(rank, f64::total_cmp).1 / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traced(sent: f64, prompt: u64, tokens: &[f64]) -> Traced {
        Traced { sent, prompt, tokens: tokens.to_vec() }
    }

    fn limits(budget: usize) -> EngineSpec {
        EngineSpec { max_num_batched_tokens: budget, ..EngineSpec::default() }
    }

    #[test]
    fn tokens_that_come_together_are_a_step() {
        let run = [traced(0.0, 10, &[0.10, 0.12, 0.14001, 0.17]), traced(0.13, 50, &[0.17002, 0.19])];
        let found = find(&run, &limits(8192));
        assert_eq!(found.idle_ttfts, [IdleTtft { at: 0.10, ttft: 0.10, prompt: 10.0, window: 0 }]);
        assert_eq!((found.steps.len(), found.unclear, found.widest), (4, 0, 2));
        let mixed = found.steps[2];
        assert!((mixed.seconds - 0.03).abs() < 1e-3);
        assert_eq!((mixed.prefill, mixed.sequences, mixed.kv, mixed.attention), (50.0, 2.0, 13.0 + 50.0, 1275.0));
    }

    #[test]
    fn a_step_without_a_token_of_every_sequence_is_left_out() {
        let run = [traced(0.0, 1, &[0.1, 0.2, 0.3, 0.4]), traced(0.0, 1, &[0.1, 0.2, 0.4])];
        let found = find(&run, &limits(8192));
        assert_eq!((found.steps.len(), found.unclear), (2, 1));
    }

    #[test]
    fn a_prompt_of_more_than_a_step_is_in_the_steps_before_its_first_token() {
        // 250 prompt tokens next to one decoding sequence with a budget of 100: 99, 99 and 52.
        let first = traced(0.08, 10, &[0.1, 0.2, 0.3, 0.4, 0.5]);
        let found = find(&[first.clone(), traced(0.05, 250, &[0.4, 0.5])], &limits(100));
        let prefill: Vec<f64> = found.steps.iter().map(|step| step.prefill).collect();
        assert_eq!((prefill.as_slice(), found.unclear), ([99.0, 99.0, 52.0, 0.0].as_slice(), 0));
        // Sent so shortly before a step that it may have missed it.
        let found = find(&[first, traced(0.095, 250, &[0.4, 0.5])], &limits(100));
        assert_eq!((found.steps.len(), found.unclear), (1, 3));
    }
}
