//! Continuous batching: each step serves the running sequences first, then admits waiting ones in the policy's order.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use tacho_core::Stamp;

use super::job::{Finish, Job, Refusal, Work};
use super::kv::BlockPool;
use super::noise::{Noise, Pace};
use super::prefix_cache::extend_hashes;
use super::sequence::{SeqId, Sequence};
use super::{BatchShape, CostModel, EngineSpec, Policy, Stats};
use crate::error::Error;

/// A step under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// What is in it.
    pub batch: BatchShape,
    /// How long it takes.
    pub takes: Duration,
}

/// A token that came out at the end of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenEvent {
    /// Whose token.
    pub id: SeqId,
    /// Which of its output tokens, from zero.
    pub position: usize,
    /// Why it was the last, if it was.
    pub finish: Option<Finish>,
    /// Tokens of its prompt that did not have to be computed.
    pub cached: usize,
}

/// Where a running sequence stands after room was made for it.
enum Room {
    /// Here, with its blocks.
    At(usize),
    /// In the queue; the one that followed it is here now.
    PutBack(usize),
}

/// The engine. Call [`Engine::begin_step`], let the time pass that it names, call [`Engine::end_step`], and again.
#[derive(Debug)]
pub struct Engine {
    spec: EngineSpec,
    cost: CostModel,
    pool: BlockPool,
    waiting: VecDeque<Sequence>,
    running: Vec<Sequence>,
    batch: Option<BatchShape>,
    stats: Stats,
    noise: Option<Noise>,
}

impl Engine {
    /// An idle engine.
    pub fn new(spec: EngineSpec, cost: CostModel) -> Result<Self, Error> {
        spec.validate()?;
        let pool = BlockPool::new(spec.num_blocks);
        let stats = Stats::default();
        Ok(Engine { spec, cost, pool, waiting: VecDeque::new(), running: Vec::new(), batch: None, stats, noise: None })
    }

    /// Lets step times spread about what they should be, by this much relative to it and with the machine's pace.
    pub fn set_noise(&mut self, spread: f64, pace: Option<&Pace>, seed: u64) {
        self.noise = Noise::new(spread, pace, seed);
    }

    /// Puts a job at the end of the queue, or says why it can never run.
    pub fn submit(&mut self, id: SeqId, job: Job, now: Stamp) -> Result<(), Refusal> {
        self.spec.check(&job)?;
        let sequence = Sequence::new(id, job, now);
        match self.spec.policy {
            Policy::Fcfs => self.waiting.push_back(sequence),
            Policy::Priority => self.queue_by_rank(sequence),
        }
        Ok(())
    }

    /// Whether a job could ever run.
    ///
    /// # Errors
    /// When it could not, and why.
    pub fn check(&self, job: &Job) -> Result<(), Refusal> {
        self.spec.check(job)
    }

    fn queue_by_rank(&mut self, sequence: Sequence) {
        let at = self.waiting.partition_point(|other| other.rank() < sequence.rank());
        self.waiting.insert(at, sequence);
    }

    /// Drops sequences wherever they are; says how many were still there.
    pub fn cancel(&mut self, ids: &[SeqId]) -> usize {
        let leaving: HashSet<SeqId> = ids.iter().copied().collect();
        let before = self.waiting.len() + self.running.len();
        let pool = &mut self.pool;
        let mut stays = |sequence: &mut Sequence| {
            let leaves = leaving.contains(&sequence.id);
            if leaves {
                pool.release(&mut sequence.blocks);
            }
            !leaves
        };
        self.waiting.retain_mut(&mut stays);
        self.running.retain_mut(&mut stays);
        let gone = before - self.waiting.len() - self.running.len();
        self.stats.finished_abort += gone as u64;
        gone
    }

    /// Composes the next step; `None` when there is nothing to do.
    ///
    /// # Panics
    /// When the step before was not ended: that is a mistake of the caller.
    pub fn begin_step(&mut self, now: Stamp) -> Option<Step> {
        assert!(self.batch.is_none(), "a step is under way");
        let mut budget = self.spec.max_num_batched_tokens;
        let preempted = self.schedule_running(&mut budget);
        if !preempted {
            self.admit(&mut budget, now);
        }
        let (batch, attention) = self.shape();
        if batch.sequences == 0 {
            return None;
        }
        self.batch = Some(batch);
        let takes = self.cost.time(&batch, attention);
        Some(Step { batch, takes: self.noise.as_mut().map_or(takes, |noise| noise.disturb(takes, now)) })
    }

    /// Gives the running sequences their tokens, oldest first; when blocks run out the newest are put back.
    fn schedule_running(&mut self, budget: &mut usize) -> bool {
        let mut preempted = false;
        let mut at = 0;
        while at < self.running.len() {
            let sequence = &self.running[at];
            let tokens = (sequence.known() - sequence.computed).min(*budget);
            if tokens == 0 {
                at += 1;
                continue;
            }
            // Most steps of most sequences stay within the blocks that they have.
            let fits = sequence.computed + tokens <= sequence.blocks.len() * self.spec.block_size;
            let room = if fits { Room::At(at) } else { self.make_room(at, tokens, budget, &mut preempted) };
            match room {
                Room::At(place) => {
                    self.place(place, tokens);
                    *budget -= tokens;
                    at = place + 1;
                }
                // What followed has moved up.
                Room::PutBack(place) => at = place,
            }
        }
        preempted
    }

    /// Gets the blocks for `tokens` more of the sequence at `at`, at the cost of others and at last of itself.
    fn make_room(&mut self, mut at: usize, tokens: usize, budget: &mut usize, preempted: &mut bool) -> Room {
        loop {
            let sequence = &mut self.running[at];
            let needed = (sequence.computed + tokens).div_ceil(self.spec.block_size) - sequence.blocks.len();
            if self.pool.take(needed, &mut sequence.blocks) {
                return Room::At(at);
            }
            *preempted = true;
            let victim = self.victim();
            *budget += self.put_back(victim);
            if victim == at {
                return Room::PutBack(at);
            }
            at -= usize::from(victim < at);
        }
    }

    /// Who gives up its blocks: the newest, or the one of the greatest rank.
    fn victim(&self) -> usize {
        let last = self.running.len() - 1;
        match self.spec.policy {
            Policy::Fcfs => last,
            Policy::Priority => (0..=last).max_by_key(|at| self.running[*at].rank()).unwrap_or(last),
        }
    }

    /// Puts a running sequence back into the queue; gives the tokens of the step that it had.
    fn put_back(&mut self, at: usize) -> usize {
        let mut sequence = self.running.remove(at);
        self.pool.release(&mut sequence.blocks);
        sequence.computed = 0;
        sequence.registered = 0;
        sequence.preempted = true;
        self.stats.preemptions += 1;
        let tokens = std::mem::take(&mut sequence.scheduled);
        match self.spec.policy {
            Policy::Fcfs => self.waiting.push_front(sequence),
            Policy::Priority => self.queue_by_rank(sequence),
        }
        tokens
    }

    /// Admits from the front of the queue while sequences, tokens and blocks allow; never past the first that waits.
    fn admit(&mut self, budget: &mut usize, now: Stamp) {
        let mut at = 0;
        while *budget > 0 && self.running.len() < self.spec.max_num_seqs {
            let Some(sequence) = self.waiting.get_mut(at) else { return };
            if sequence.fetched(&self.spec).is_some_and(|then| then > now) {
                // Its KV is under way; others need not wait for it.
                at += 1;
                continue;
            }
            if self.spec.enable_prefix_caching {
                // Not before it is looked at: what waits at the back takes no memory for its blocks' names.
                extend_hashes(sequence, self.spec.block_size);
            }
            // At least one token must be computed to get the next from it.
            let usable = (sequence.known() - 1) / self.spec.block_size;
            let hits = self.pool.find(&sequence.hashes[..usable.min(sequence.hashes.len())]);
            let cached = hits.len() * self.spec.block_size;
            let there = if sequence.is_filled(&self.spec) { sequence.known() - 1 } else { cached };
            let tokens = (sequence.known() - there).min(*budget);
            let split = tokens < sequence.known() - there;
            if split && !self.spec.enable_chunked_prefill && *budget < self.spec.max_num_batched_tokens {
                return;
            }
            let fresh = (there + tokens).div_ceil(self.spec.block_size) - hits.len();
            if fresh + self.pool.free_among(&hits) > self.pool.free() {
                return;
            }
            self.pool.share(&hits);
            sequence.registered = hits.len();
            sequence.computed = there;
            sequence.blocks = hits;
            let taken = self.pool.take(fresh, &mut sequence.blocks);
            assert!(taken, "the room was checked");
            if self.spec.enable_prefix_caching && !sequence.preempted {
                self.stats.prefix_cache_queries += sequence.known() as u64;
                self.stats.prefix_cache_hits += cached as u64;
            }
            if sequence.job.remote && !sequence.preempted {
                self.stats.external_cache_queries += (sequence.known() - cached) as u64;
                self.stats.external_cache_hits += (there - cached) as u64;
            }
            if sequence.admitted.is_none() {
                sequence.admitted = Some(now);
                sequence.cached = there;
                self.stats.queue_time.observe(now.since(sequence.arrived).as_secs_f64());
            }
            self.running.extend(self.waiting.remove(at));
            self.place(self.running.len() - 1, tokens);
            *budget -= tokens;
        }
    }

    /// Puts `tokens` of the sequence at `at` into the step, and names the blocks that they fill.
    fn place(&mut self, at: usize, tokens: usize) {
        let sequence = &mut self.running[at];
        sequence.scheduled = tokens;
        let filled = |block: usize| (block + 1) * self.spec.block_size <= sequence.computed + tokens;
        while sequence.registered < sequence.hashes.len() && filled(sequence.registered) {
            let block = sequence.registered;
            self.pool.register(sequence.blocks[block], sequence.hashes[block]);
            sequence.registered += 1;
        }
    }

    /// What is in the step, and what its prompt tokens look at.
    fn shape(&self) -> (BatchShape, f64) {
        let (mut batch, mut attention) = (BatchShape::default(), 0.0);
        for sequence in self.running.iter().filter(|sequence| sequence.scheduled > 0) {
            batch.sequences += 1;
            batch.kv_tokens += sequence.computed + sequence.scheduled;
            if sequence.decoding() {
                batch.decode_sequences += 1;
            } else {
                batch.prefill_tokens += sequence.scheduled;
                let chunk = sequence.scheduled as f64;
                attention += chunk * (sequence.computed as f64 + (chunk + 1.0) / 2.0);
            }
        }
        batch.kv_tokens = batch.kv_tokens.saturating_sub(self.pool.again() * self.spec.block_size);
        (batch, attention)
    }

    /// Ends the step under way at `now` and appends the tokens that came out, in batch order.
    pub fn end_step(&mut self, now: Stamp, events: &mut Vec<TokenEvent>) {
        let Some(batch) = self.batch.take() else { return };
        self.stats.steps += 1;
        self.stats.iteration_tokens.observe((batch.prefill_tokens + batch.decode_sequences) as f64);
        let (mut gaps, mut finished) = (Gaps::default(), false);
        for sequence in &mut self.running {
            sequence.computed += std::mem::take(&mut sequence.scheduled);
            if sequence.computed == sequence.known() {
                let event = produce(sequence, now, &mut gaps, &mut self.stats);
                finished |= event.finish.is_some();
                events.push(event);
                if self.spec.enable_prefix_caching {
                    extend_hashes(sequence, self.spec.block_size);
                }
            }
        }
        gaps.count(&mut self.stats);
        if finished {
            let pool = &mut self.pool;
            self.running.retain_mut(|sequence| {
                let done = sequence.produced == sequence.job.output.len();
                if done {
                    pool.release(&mut sequence.blocks);
                }
                !done
            });
        }
    }

    /// When a sequence that waits for its KV can go on, if nothing else makes the engine look again.
    pub fn wakes(&self) -> Option<Stamp> {
        self.waiting.iter().filter_map(|sequence| sequence.fetched(&self.spec)).min()
    }

    /// Forgets all cached prefixes; refused (false) while any sequence holds blocks.
    pub fn reset_prefix_cache(&mut self) -> bool {
        self.pool.forget()
    }

    /// Whether nothing waits and nothing runs.
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.running.is_empty()
    }

    /// Free blocks, those with cached prefixes included.
    pub fn free_blocks(&self) -> usize {
        self.pool.free()
    }

    /// Brings the gauges up to date and shows the counters.
    pub fn stats(&mut self) -> &Stats {
        self.stats.running = self.running.len();
        self.stats.waiting = self.waiting.len();
        self.stats.kv_cache_usage = 1.0 - self.pool.free() as f64 / self.pool.total() as f64;
        &self.stats
    }
}

/// Times between tokens that are alike, and so counted together: those of a step mostly are.
#[derive(Default)]
struct Gaps {
    long: Duration,
    times: u64,
}

impl Gaps {
    fn add(&mut self, long: Duration, stats: &mut Stats) {
        if long != self.long {
            self.count(stats);
            *self = Gaps { long, times: 0 };
        }
        self.times += 1;
    }

    fn count(&self, stats: &mut Stats) {
        if self.times > 0 {
            stats.inter_token_latency.observe_times(self.long.as_secs_f64(), self.times);
        }
    }
}

/// Takes the sequence's next token and counts it.
fn produce(sequence: &mut Sequence, now: Stamp, gaps: &mut Gaps, stats: &mut Stats) -> TokenEvent {
    let position = sequence.produced;
    sequence.produced += 1;
    if position == 0 {
        stats.prompt_tokens += sequence.job.prompt.len() as u64;
        stats.prompt_tokens_cached += sequence.cached as u64;
        sequence.first_token = Some(now);
    }
    if sequence.job.work == Work::Generate {
        stats.generation_tokens += 1;
        match sequence.last_token.replace(now) {
            Some(before) => gaps.add(now.since(before), stats),
            None => stats.time_to_first_token.observe(now.since(sequence.arrived).as_secs_f64()),
        }
    }
    let finish = (sequence.produced == sequence.job.output.len()).then_some(sequence.job.finish);
    if let Some(reason) = finish {
        stats.e2e_request_latency.observe(now.since(sequence.arrived).as_secs_f64());
        if sequence.job.work == Work::Generate {
            count_phases(sequence, now, stats);
        }
        match reason {
            Finish::Stop => stats.finished_stop += 1,
            Finish::Length => stats.finished_length += 1,
        }
    }
    TokenEvent { id: sequence.id, position, finish, cached: sequence.cached }
}

/// Counts where the time of a finished sequence went, and its lengths.
fn count_phases(sequence: &Sequence, now: Stamp, stats: &mut Stats) {
    let admitted = sequence.admitted.unwrap_or(sequence.arrived);
    let first = sequence.first_token.unwrap_or(now);
    let decode = now.since(first).as_secs_f64();
    stats.prefill_time.observe(first.since(admitted).as_secs_f64());
    stats.decode_time.observe(decode);
    stats.inference_time.observe(now.since(admitted).as_secs_f64());
    stats.request_prompt_tokens.observe(sequence.job.prompt.len() as f64);
    stats.request_generation_tokens.observe(sequence.produced as f64);
    if sequence.produced > 1 {
        stats.time_per_output_token.observe(decode / (sequence.produced - 1) as f64);
    }
}

#[cfg(test)]
impl Engine {
    /// Sequences' blocks and the pool, for tests of balance.
    pub(super) fn check_balance(&self) {
        let (refs, queue) = self.pool.census();
        let mut held = vec![0; refs.len()];
        let sequences = self.running.iter().chain(&self.waiting);
        sequences.flat_map(|sequence| &sequence.blocks).for_each(|&block| held[block as usize] += 1);
        assert_eq!(refs, held, "references equal the blocks that sequences hold");
        let mut free: Vec<u32> = queue.clone();
        free.sort_unstable();
        let unused: Vec<u32> = (0..refs.len() as u32).filter(|&block| refs[block as usize] == 0).collect();
        assert_eq!(free, unused, "every unused block is in the free queue, once");
        assert_eq!(queue.len(), self.pool.free());
        assert_eq!(refs.iter().map(|refs| refs.saturating_sub(1) as usize).sum::<usize>(), self.pool.again());
    }

    pub(super) fn running_ids(&self) -> Vec<u64> {
        self.running.iter().map(|sequence| sequence.id.0).collect()
    }

    pub(super) fn waiting_ids(&self) -> Vec<u64> {
        self.waiting.iter().map(|sequence| sequence.id.0).collect()
    }
}
