//! `max_num_batched_tokens`, from the prompts that finished in each step while more were queued. Two hypotheses are tested:
//! chunked prefill, which fills every step, and whole prompts only.

use super::queue::{Queue, Run};

/// Least full steps with several prompts.
const MIN_FULL_STEPS: usize = 5;
/// Largest distance of the bounds, as a fraction of the limit.
const MAX_GAP: f64 = 0.08;
/// Longest chain of full steps.
const MAX_CHAIN: usize = 64;
/// Steps that must have held as many tokens for a lower bound: a first token that arrives late joins the next step.
pub(crate) const MIN_WITNESSES: usize = 3;
/// Tolerance above the upper bound: a request that seems queued may not have arrived.
const LATE_TOLERANCE: f64 = 0.02;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// The roundest number within the bounds.
    pub limit: usize,
    pub between: (usize, usize),
}

impl Held {
    /// Whether a limit is within the bounds.
    pub(crate) fn has(&self, limit: f64) -> bool {
        (self.between.0 as f64..=self.between.1 as f64).contains(&limit)
    }

    /// Whether the bounds are close to each other.
    pub(crate) fn is_close(&self) -> bool {
        (self.between.1 - self.between.0) as f64 <= MAX_GAP * self.between.1 as f64
    }

    /// The roundest number from `low` to `high`.
    pub(crate) fn within(low: f64, high: f64) -> Option<Self> {
        let limit = (low <= high && high.is_finite()).then(|| roundest(low, high + 1.0)).flatten()?;
        Some(Held { limit, between: (low.ceil() as usize, high as usize) })
    }
}

/// Bounds under both hypotheses.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Budget {
    splitting: Bounds,
    /// With chunked prefill, also from steps in which no prompt finishes: these are full of one that is longer than the limit.
    long: Bounds,
    whole: Bounds,
    /// The largest numbers of tokens that steps held with chunked prefill, and without it.
    held: [[f64; MIN_WITNESSES]; 2],
}

impl Default for Budget {
    fn default() -> Self {
        let [splitting, long, whole] = [Bounds::NONE; 3];
        Budget { splitting, long, whole, held: [[0.0; MIN_WITNESSES]; 2] }
    }
}

impl Budget {
    /// Adds a run in which no step has more sequences than `limit`.
    pub(super) fn add_run(&mut self, run: &Run, limit: usize) {
        let mut queue = Queue::new(run.traced);
        let (mut running, mut chains) = (0, Chains::default());
        let mut before = f64::NEG_INFINITY;
        for cluster in &run.clusters {
            let prompts = || cluster.began().map(|at| run.traced[at].prompt as f64);
            let (began, decoded) = (prompts().count(), cluster.tokens.len() - prompts().count());
            // Where a sequence has no token here, tokens of several steps arrived together.
            let clear = decoded == running;
            running = running + began - run.ended(cluster);
            let next = queue.first(before - run.lead, cluster.until).map(|one| one.prompt as f64);
            before = cluster.at;
            // A partially prefilled prompt counts in the batch, though it has no token here.
            let next = next.filter(|_| cluster.tokens.len() + 1 < limit);
            self.add_step(&mut chains, clear.then(|| Full::of(decoded, prompts())), next);
            // Steps without a running sequence have no tokens until a prompt finishes.
            if running == 0 {
                chains[1].clear();
            }
        }
    }

    /// Adds the next step of a run, if all its tokens are known; `next` is the first queued prompt where the batch had room.
    pub(crate) fn add_step(&mut self, chains: &mut Chains, step: Option<Full>, next: Option<f64>) {
        step.iter().for_each(|step| self.held(step));
        match step.zip(next) {
            Some((step, next)) => self.full(chains, step, next),
            None => *chains = Chains::default(),
        }
    }

    /// Lower bound from the tokens of a step, whether or not requests were queued. With chunked prefill a part of one
    /// of its prompts may belong to an earlier step.
    fn held(&mut self, step: &Full) {
        let [splitting, whole] = &mut self.held;
        let low = witnessed(splitting, step.tokens - step.largest);
        (self.splitting.low, self.long.low) = (self.splitting.low.max(low), self.long.low.max(low));
        self.whole.low = self.whole.low.max(witnessed(whole, step.tokens));
    }

    /// Upper bound from a step that was full though `next` was queued, and from chains of such steps: consecutive full
    /// steps hold all their tokens, up to what was computed before the first and what was begun of the next prompt.
    fn full(&mut self, [chain, long]: &mut Chains, step: Full, next: f64) {
        self.long.full(long, step, next);
        if step.largest == 0.0 {
            return chain.clear();
        }
        self.whole.steps += usize::from(step.several);
        self.whole.high = self.whole.high.min(step.tokens + next);
        self.splitting.full(chain, step, next);
    }

    /// The limit, and whether prefill is chunked, where the steps determine them; `splits` is known from elsewhere.
    pub(crate) fn infer(&self, splits: Option<bool>) -> (Option<Held>, Option<bool>) {
        let (splitting, whole) = (self.splitting.limit(), self.whole.limit());
        match splits {
            Some(true) => return (splitting.or(self.long.limit()), None),
            Some(false) => return (whole, None),
            None => {}
        }
        match (splitting, whole) {
            (Some(limit), None) if !self.whole.is_possible() => (Some(limit), Some(true)),
            (None, Some(limit)) if !self.splitting.is_possible() => (Some(limit), Some(false)),
            (Some(one), Some(other)) if one.limit == other.limit => (Some(one), None),
            (None, None) if !self.whole.is_possible() => (self.long.limit(), self.long.limit().map(|_| true)),
            _ => (None, None),
        }
    }

    /// Most tokens that a step certainly held.
    pub(super) fn most_tokens(&self) -> usize {
        self.held[0][MIN_WITNESSES - 1] as usize
    }
}

/// Adds a value to the largest ones, in falling order; returns the last of them.
pub(crate) fn witnessed(largest: &mut [f64; MIN_WITNESSES], value: f64) -> f64 {
    let index = largest.partition_point(|&held| held >= value);
    if index < MIN_WITNESSES {
        largest[index..].rotate_right(1);
        largest[index] = value;
    }
    largest[MIN_WITNESSES - 1]
}

/// Consecutive full steps under both hypotheses about long prompts.
pub(crate) type Chains = [Vec<Full>; 2];

/// A step that may be full.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Full {
    /// Tokens, including all of its prompts.
    tokens: f64,
    /// Tokens of its largest prompt.
    largest: f64,
    /// Whether it had several prompts: a single one may be all that was queued.
    several: bool,
}

impl Full {
    /// The step in which `decoded` sequences got their next token, and these prompts their first.
    pub(crate) fn of(decoded: usize, prompts: impl Iterator<Item = f64>) -> Self {
        let mut step = Full { tokens: decoded as f64, largest: 0.0, several: false };
        for prompt in prompts {
            step.several = step.largest > 0.0;
            (step.tokens, step.largest) = (step.tokens + prompt, step.largest.max(prompt));
        }
        step
    }
}

/// Bounds of a limit, and the number of steps they come from.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    low: f64,
    high: f64,
    steps: usize,
}

impl Bounds {
    const NONE: Bounds = Bounds { low: 0.0, high: f64::INFINITY, steps: 0 };

    fn is_possible(&self) -> bool {
        self.low < self.high
    }

    /// Bounds of chunked prefill from a chain of full steps that `step` continues. Part of the first prompt that finishes in
    /// a chain may have been computed before it.
    fn full(&mut self, chain: &mut Vec<Full>, step: Full, next: f64) {
        self.steps += usize::from(!chain.is_empty() && step.several);
        chain.push(step);
        let (mut tokens, mut begun) = (0.0, 0.0);
        for (count, first) in chain.iter().rev().take(MAX_CHAIN).enumerate() {
            let steps = (count + 1) as f64;
            tokens += first.tokens;
            begun = if first.largest > 0.0 { first.largest } else { begun };
            self.low = self.low.max((tokens - begun) / steps);
            self.high = self.high.min((tokens + next) / steps);
        }
    }

    /// The roundest number between the bounds, if they are close.
    fn limit(&self) -> Option<Held> {
        let close = self.high.is_finite() && self.high - self.low <= MAX_GAP * self.high;
        let (low, high) = (self.low, self.high * (1.0 + LATE_TOLERANCE));
        let limit =
            (self.is_possible() && close && self.steps >= MIN_FULL_STEPS).then(|| roundest(low, high)).flatten()?;
        Some(Held { limit, between: (low.ceil() as usize, high as usize) })
    }
}

/// The number between the two that is divisible by the largest power of two.
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

    #[test]
    fn a_lower_bound_needs_several_steps() {
        let mut budget = Budget::default();
        let step = |tokens| Full { tokens, largest: 100.0, several: true };
        [2130.0, 2048.0, 1900.0, 2040.0].into_iter().for_each(|tokens| budget.held(&step(tokens)));
        assert_eq!((budget.most_tokens(), budget.whole.low), (1940, 2040.0));
    }

    #[test]
    fn the_roundest_number_is_taken() {
        assert_eq!(roundest(990.0, 1043.2), Some(1024));
        assert_eq!(roundest(8100.0, 8300.0), Some(8192));
        assert_eq!(roundest(4.2, 4.9), None);
    }
}
