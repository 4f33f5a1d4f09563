//! The engine's steps, found in the arrival times of tokens: all sequences of a batch get their tokens together.

use super::memory_bound::Beyond;
use super::profile::Limits;
use super::trace::Traced;

/// Requests come together when they are sent within so many seconds,
const TOGETHER: f64 = 0.01;
/// and are at least so many.
const FEWEST_TOGETHER: usize = 4;

/// A step that was seen from its beginning to its end.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Step {
    /// When it ended, in seconds.
    pub at: f64,
    /// Seconds it took.
    pub seconds: f64,
    /// How many it is: several where they are only known together.
    pub count: f64,
    /// Prompt tokens in it.
    pub prefill: f64,
    /// Those of them that make it longer.
    pub computed: f64,
    /// The same for each number of tokens that may be free.
    pub beyond: Beyond,
    /// Sequences in it.
    pub sequences: f64,
    /// 1 where there is a single token to compute; several steps add up.
    pub singles: f64,
    /// 1 where it has prompts and so has the step before, in an engine that prepares ahead; several add up.
    pub back_to_back_prefill: f64,
    /// Context of all of them after it.
    pub kv: f64,
    /// Prompt tokens, each times the context that it looks at.
    pub attention: f64,
    /// The moment it fell into: what makes one step of it slow makes all.
    pub moment: usize,
}

impl Step {
    /// A step of which nothing is known yet.
    pub(super) fn one() -> Step {
        Step { count: 1.0, ..Step::default() }
    }

    /// What its length is fitted by.
    pub(super) fn row(&self) -> [f64; 6] {
        [self.count, self.computed, self.sequences, self.kv, self.attention, self.back_to_back_prefill]
    }

    /// Takes another into this one, which it follows.
    pub(super) fn add(&mut self, next: &Step) {
        self.at = next.at;
        self.seconds += next.seconds;
        self.count += next.count;
        self.prefill += next.prefill;
        self.computed += next.computed;
        self.beyond.add(&next.beyond);
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

/// A request that came to an idle engine: its first token took this long.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Alone {
    /// When that came.
    pub at: f64,
    /// Seconds to the first token.
    pub ttft: f64,
    /// Tokens of the prompt.
    pub prompt: f64,
    /// The moment that it fell into.
    pub moment: usize,
}

/// Requests that came together to an idle engine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Burst {
    /// How many.
    pub count: f64,
    /// Seconds until the first of their tokens.
    pub first: f64,
    /// What was in the step that brought it.
    pub step: Step,
    /// Tokens of the prompts that were not.
    pub rest: f64,
}

/// What was found in one run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Found {
    /// Steps with all that was in them, in order.
    pub steps: Vec<Step>,
    /// First tokens that waited for nobody.
    pub alone: Vec<Alone>,
    /// Requests that came together when nobody else was there.
    pub bursts: Vec<Burst>,
    /// Steps left out: a sequence had no token in them (events that came together, a preemption), or it is not known how
    /// much of a prompt was in them.
    pub unclear: usize,
    /// The most sequences that had a token at once.
    pub widest: usize,
    /// Seconds between tokens that came together, one number for each step of three or more.
    pub apart: Vec<f64>,
}

/// Tokens that came together.
#[derive(Debug)]
pub(super) struct Cluster {
    /// When the first of them came.
    pub(super) at: f64,
    /// When the last of them came.
    pub(super) until: f64,
    /// Request and which of its tokens.
    pub(super) tokens: Vec<(usize, usize)>,
}

impl Cluster {
    /// The requests whose first token this is.
    pub(super) fn began(&self) -> impl Iterator<Item = usize> {
        self.tokens.iter().filter(|(_, place)| *place == 0).map(|(request, _)| *request)
    }
}

/// Finds the steps of a run on a server of these limits.
pub fn find(traced: &[Traced], limits: &Limits) -> Found {
    let Reading { mut found, steps, .. } = read(traced, limits, 0);
    found.steps = steps.into_iter().flatten().collect();
    found
}

/// A run token by token: what came together, and the step that brought it where all of it is known.
pub(super) struct Reading {
    pub(super) clusters: Vec<Cluster>,
    pub(super) steps: Vec<Option<Step>>,
    /// All but the steps.
    pub(super) found: Found,
}

impl Reading {
    /// Whether a step has prompts, or may have since not all of it is known; one that is not there has none.
    pub(super) fn has_prompts(&self, at: usize) -> bool {
        self.steps.get(at).is_some_and(|step| step.is_none_or(|step| step.prefill > 0.0))
    }

    /// Tokens of any kind in a step that is known.
    pub(super) fn tokens(&self, at: usize) -> f64 {
        let prefill = self.steps[at].map_or(0.0, |step| step.prefill);
        prefill + (self.clusters[at].tokens.len() - self.clusters[at].began().count()) as f64
    }
}

/// Reads a run; what is in a step was chosen when the one before had ended, or as many steps `ahead` of that.
pub(super) fn read(traced: &[Traced], limits: &Limits, ahead: usize) -> Reading {
    let clusters = clusters(traced);
    let mut watch = Watch::new(traced, limits, quickest(traced));
    let mut steps = Vec::with_capacity(clusters.len());
    for (at, cluster) in clusters.iter().enumerate() {
        watch.arrive(cluster.at);
        let chosen = clusters[at.saturating_sub(1 + ahead)].at;
        steps.push(watch.look(at.checked_sub(1).map(|before| &clusters[before]), cluster, chosen));
        watch.take(cluster);
    }
    let found = watch.found;
    Reading { clusters, steps, found }
}

/// A request that was sent less than this before a step may not have reached it.
pub(super) fn quickest(traced: &[Traced]) -> f64 {
    let first = |one: &Traced| one.tokens.first().map(|token| token - one.sent);
    traced.iter().filter_map(first).fold(f64::INFINITY, f64::min)
}

/// Where the requests of a run stand between two steps.
struct Watch<'a> {
    traced: &'a [Traced],
    limits: &'a Limits,
    lead: f64,
    /// Requests in the order they were sent, of which so many have been.
    order: Vec<usize>,
    sent: usize,
    /// Sent, without a token; in that order.
    pending: Vec<usize>,
    /// In the middle of their answers.
    running: usize,
    /// Prompt tokens that steps have computed before the one that brought the first token; none where it is not known.
    computed: Vec<Option<f64>>,
    found: Found,
}

impl<'a> Watch<'a> {
    fn new(traced: &'a [Traced], limits: &'a Limits, lead: f64) -> Self {
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

    /// What the tokens say of the step that brought them.
    fn look(&mut self, before: Option<&Cluster>, cluster: &Cluster, chosen: f64) -> Option<Step> {
        self.found.widest = self.found.widest.max(cluster.tokens.len());
        if let [_, _, _, ..] = cluster.tokens.as_slice() {
            self.found.apart.push((cluster.until - cluster.at) / (cluster.tokens.len() - 1) as f64);
        }
        match before.filter(|_| self.running > 0) {
            Some(before) => {
                let step = self.step(before, cluster, chosen);
                self.found.unclear += usize::from(step.is_none());
                step
            }
            None => {
                let idle_since = before.map_or(f64::NEG_INFINITY, |before| before.until);
                self.found.alone.extend(self.alone(idle_since, cluster));
                self.found.bursts.extend(self.burst(idle_since, cluster));
                None
            }
        }
    }

    /// The step that ended with `cluster` and began with the one before; none where something of it is not known.
    fn step(&mut self, before: &Cluster, cluster: &Cluster, chosen: f64) -> Option<Step> {
        let mut step = Step { at: cluster.at, seconds: cluster.at - before.at, ..Step::one() };
        let (mut went_on, mut known) = (0, true);
        for (request, place) in &cluster.tokens {
            let prompt = self.traced[*request].prompt as f64;
            match (place, self.computed[*request]) {
                (0, Some(done)) => step.add_prompt(done, prompt - done),
                (0, None) => known = false,
                _ => {
                    went_on += 1;
                    step.sequences += 1.0;
                    step.kv += prompt + *place as f64;
                }
            }
        }
        let left = self.limits.max_num_batched_tokens as f64 - step.prefill - went_on as f64;
        let known = self.fill(&mut step, cluster, chosen, left) && known;
        step.beyond = Beyond::of(step.prefill, went_on as f64);
        step.singles = f64::from(u8::from(step.prefill == 0.0 && went_on == 1));
        (went_on == self.running && known && left >= 0.0 && step.seconds > 0.0).then_some(step)
    }

    /// Puts the tokens that are left into the first prompt that waits: an engine that prefills in chunks fills its steps.
    fn fill(&mut self, step: &mut Step, cluster: &Cluster, began: f64, left: f64) -> bool {
        if left <= 0.0 || cluster.tokens.len() >= self.limits.max_num_seqs {
            return true;
        }
        let began_here: Vec<usize> = cluster.began().collect();
        let Some(&next) = self.pending.iter().find(|at| !began_here.contains(at)) else { return true };
        let (one, done) = (&self.traced[next], self.computed[next]);
        let rest = done.map_or(f64::INFINITY, |done| one.prompt as f64 - done);
        // What had come and could have ended here would have.
        if one.sent >= began || rest <= left || !self.limits.chunked_prefill {
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

    /// The one request whose first token this is, when it came to an idle engine.
    fn alone(&self, idle_since: f64, cluster: &Cluster) -> Option<Alone> {
        match (cluster.tokens.as_slice(), self.pending.as_slice()) {
            ([(request, 0)], [_]) => {
                let one = &self.traced[*request];
                let at = one.tokens[0];
                (one.sent >= idle_since).then_some(Alone {
                    at,
                    ttft: at - one.sent,
                    prompt: one.prompt as f64,
                    moment: 0,
                })
            }
            _ => None,
        }
    }

    /// The requests that wait, when they came together to an idle engine.
    fn burst(&self, idle_since: f64, cluster: &Cluster) -> Option<Burst> {
        let sent = || self.pending.iter().map(|at| self.traced[*at].sent);
        let (first, last) = (sent().fold(f64::INFINITY, f64::min), sent().fold(0.0, f64::max));
        if self.pending.len() < FEWEST_TOGETHER || first < idle_since || last - first > TOGETHER {
            return None;
        }
        let mut step = Step::one();
        cluster.began().for_each(|at| step.add_prompt(0.0, self.traced[at].prompt as f64));
        let all: f64 = self.pending.iter().map(|at| self.traced[*at].prompt as f64).sum();
        Some(Burst { count: self.pending.len() as f64, first: cluster.at - first, step, rest: all - step.prefill })
    }

    /// Counts who begins and who ends with these tokens.
    fn take(&mut self, cluster: &Cluster) {
        self.pending.retain(|at| !cluster.tokens.contains(&(*at, 0)));
        for (request, place) in &cluster.tokens {
            let last = place + 1 == self.traced[*request].tokens.len();
            self.running += usize::from(*place == 0);
            self.running -= usize::from(last);
        }
    }
}

/// Groups tokens by time: a group ends with a gap, or where a request would have two tokens in it.
pub(super) fn clusters(traced: &[Traced]) -> Vec<Cluster> {
    let numbered = |(request, one): (usize, &Traced)| {
        one.tokens.iter().enumerate().map(move |(place, at)| (*at, request, place)).collect::<Vec<_>>()
    };
    let mut tokens: Vec<(f64, usize, usize)> = traced.iter().enumerate().flat_map(numbered).collect();
    tokens.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.2.cmp(&other.2)));
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

#[cfg(test)]
mod tests {
    use super::*;

    fn traced(sent: f64, prompt: u64, tokens: &[f64]) -> Traced {
        Traced { sent, prompt, tokens: tokens.to_vec() }
    }

    fn limits(budget: usize) -> Limits {
        Limits { max_num_batched_tokens: budget, ..Limits::default() }
    }

    #[test]
    fn tokens_that_come_together_are_a_step() {
        let run = [traced(0.0, 10, &[0.10, 0.12, 0.14001, 0.17]), traced(0.13, 50, &[0.17002, 0.19])];
        let found = find(&run, &limits(8192));
        assert_eq!(found.alone, [Alone { at: 0.10, ttft: 0.10, prompt: 10.0, moment: 0 }]);
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
        // 250 tokens beside one that goes on, a hundred at a time: 99, 99 and 52.
        let first = traced(0.08, 10, &[0.1, 0.2, 0.3, 0.4, 0.5]);
        let found = find(&[first.clone(), traced(0.05, 250, &[0.4, 0.5])], &limits(100));
        let prefill: Vec<f64> = found.steps.iter().map(|step| step.prefill).collect();
        assert_eq!((prefill.as_slice(), found.unclear), ([99.0, 99.0, 52.0, 0.0].as_slice(), 0));
        // Sent so shortly before a step that it may have missed it.
        let found = find(&[first, traced(0.095, 250, &[0.4, 0.5])], &limits(100));
        assert_eq!((found.steps.len(), found.unclear), (1, 3));
    }
}
