//! Continuous batching: each step serves the running sequences first, then admits waiting ones in the policy's order. A
//! sequence advances when a step is scheduled, and its token is emitted when the step's output is read.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use tacho_core::Timestamp;

use crate::flight::{Flight, Flights, Takes, Turn};
use crate::job::{Job, Rejection};
use crate::noise::{Noise, Slowdown};
use crate::sequence::{SeqId, Sequence};
use crate::token_events::{Gaps, TokenEvent, emit};
use crate::{
    BatchShape, CostModel, EngineSpec, Policy, Stats, error::Error, kv::BlockPool, prefix_cache::extend_hashes,
};

/// An iteration of the engine loop: a step, or the part of it that passes before the engine reads its queue again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// The scheduled batch; empty where the engine only waits for the previous step.
    pub batch: BatchShape,
    /// Time until the next iteration.
    pub takes: Duration,
}

/// A sequence's part of a step, for tests that need to know what the engine did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scheduled {
    pub id: SeqId,
    /// Tokens computed in the step, and before it.
    pub tokens: usize,
    pub computed: usize,
    pub is_decode: bool,
    /// Whether a preempted sequence computes its context again.
    pub is_recomputed: bool,
}

/// Position of a running sequence after blocks were allocated for it.
enum Slot {
    /// Still running at this index.
    At(usize),
    /// Preempted; the sequence after it is at this index now.
    Preempted(usize),
}

/// The engine. Call [`Engine::begin_step`], advance the clock by the time it returns, call [`Engine::end_step`], and
/// repeat.
#[derive(Debug)]
pub struct Engine {
    spec: EngineSpec,
    cost: CostModel,
    pool: BlockPool,
    waiting: VecDeque<Sequence>,
    running: Vec<Sequence>,
    flights: Flights,
    turn: Option<Turn>,
    /// Whether a sequence with a token in flight was preempted.
    displaced: bool,
    stats: Stats,
    noise: Option<Noise>,
    batch: Option<Vec<Scheduled>>,
}

impl Engine {
    pub fn new(spec: EngineSpec, cost: CostModel) -> Result<Self, Error> {
        spec.validate()?;
        Ok(Engine {
            pool: BlockPool::new(spec.num_blocks),
            flights: Flights::new(spec.async_scheduling),
            spec,
            cost,
            waiting: VecDeque::new(),
            running: Vec::new(),
            turn: None,
            displaced: false,
            stats: Stats::default(),
            noise: None,
            batch: None,
        })
    }

    /// Makes step times random: a relative standard deviation, and a slowdown over time.
    pub fn set_noise(&mut self, spread: f64, slowdown: Option<&Slowdown>, seed: u64) {
        self.noise = Noise::new(spread, (self.cost.schedule_noise, self.cost.schedule_drift), slowdown, seed);
    }

    /// Records the sequences of each step for [`Engine::batch`].
    pub fn record_batches(&mut self) {
        self.batch = Some(Vec::new());
    }

    /// The sequences of the last scheduled step; empty unless they are recorded.
    pub fn batch(&self) -> &[Scheduled] {
        self.batch.as_deref().unwrap_or_default()
    }

    /// Appends a job to the queue, or returns why it can never run.
    pub fn submit(&mut self, id: SeqId, job: Job, now: Timestamp) -> Result<(), Rejection> {
        self.spec.check(&job)?;
        let sequence = Sequence::new(id, job, now);
        match self.spec.policy {
            Policy::Fcfs => self.waiting.push_back(sequence),
            Policy::Priority => self.queue_by_rank(sequence),
        }
        Ok(())
    }

    pub fn check(&self, job: &Job) -> Result<(), Rejection> {
        self.spec.check(job)
    }

    fn queue_by_rank(&mut self, sequence: Sequence) {
        let at = self.waiting.partition_point(|other| other.rank() < sequence.rank());
        self.waiting.insert(at, sequence);
    }

    /// Removes sequences in any state; returns how many were present.
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

    /// Schedules the next step, or waits for the one in flight; `None` when there is nothing to do. Panics when the
    /// previous iteration was not ended, which is a bug of the caller.
    pub fn begin_step(&mut self, now: Timestamp) -> Option<Step> {
        assert!(self.turn.is_none(), "a step is running");
        let (batch, attention) = self.compose(now);
        let turn = if batch.sequences == 0 {
            self.flights.wait()?
        } else {
            let takes = self.takes(&batch, attention, now);
            self.flights.launch(batch, takes, now)
        };
        self.turn = Some(turn);
        Some(Step { batch, takes: turn.ends.since(now) })
    }

    /// The batch of the next step, and the sum of tokens that its prompt tokens attend to.
    fn compose(&mut self, now: Timestamp) -> (BatchShape, f64) {
        let mut budget = self.spec.max_num_batched_tokens;
        let preempted = self.schedule_running(&mut budget);
        if !preempted {
            self.admit(&mut budget, now);
        }
        self.advance()
    }

    fn takes(&mut self, batch: &BatchShape, attention: f64, now: Timestamp) -> Takes {
        let mut takes = Takes { compute: self.cost.time(batch, attention), ..Takes::default() };
        if self.spec.async_scheduling {
            takes.compute +=
                self.flights.last().map_or(Duration::ZERO, |before| self.cost.back_to_back_prefill(before, batch));
            takes.schedule = self.cost.schedule(batch);
            takes.drain = self.cost.drain();
        }
        self.noise.as_mut().map_or(takes, |noise| noise.apply(takes, now))
    }

    /// Schedules tokens of the running sequences, oldest first; preempts the newest when blocks run out.
    fn schedule_running(&mut self, budget: &mut usize) -> bool {
        let mut preempted = false;
        let mut at = 0;
        while at < self.running.len() {
            let sequence = &self.running[at];
            let tokens = sequence.missing_tokens().min(*budget);
            if tokens == 0 {
                at += 1;
                continue;
            }
            // Most steps of most sequences fit into their blocks.
            let fits = sequence.computed + tokens <= sequence.blocks.len() * self.spec.block_size;
            let slot = if fits { Slot::At(at) } else { self.make_room(at, tokens, budget, &mut preempted) };
            match slot {
                Slot::At(index) => {
                    self.schedule_tokens(index, tokens);
                    *budget -= tokens;
                    at = index + 1;
                }
                // The later ones have moved up.
                Slot::Preempted(index) => at = index,
            }
        }
        preempted
    }

    /// Allocates the blocks for `tokens` more of the sequence at `at`, by preempting others and finally itself.
    fn make_room(&mut self, mut at: usize, tokens: usize, budget: &mut usize, preempted: &mut bool) -> Slot {
        loop {
            let sequence = &mut self.running[at];
            let needed = (sequence.computed + tokens).div_ceil(self.spec.block_size) - sequence.blocks.len();
            if self.pool.take(needed, &mut sequence.blocks) {
                return Slot::At(at);
            }
            *preempted = true;
            let victim = self.victim();
            *budget += self.preempt(victim);
            if victim == at {
                return Slot::Preempted(at);
            }
            at -= usize::from(victim < at);
        }
    }

    /// The sequence to preempt: the newest, or the one of the greatest rank. A sequence that only waits for its last
    /// token releases its blocks by itself.
    fn victim(&self) -> usize {
        let mut going = (0..self.running.len()).filter(|at| !self.running[*at].is_complete());
        let victim = match self.spec.policy {
            Policy::Fcfs => going.next_back(),
            Policy::Priority => going.max_by_key(|at| self.running[*at].rank()),
        };
        victim.unwrap_or(self.running.len() - 1)
    }

    /// Preempts a running sequence; returns its tokens in the step being scheduled.
    fn preempt(&mut self, at: usize) -> usize {
        let mut sequence = self.running.remove(at);
        self.pool.release(&mut sequence.blocks);
        sequence.computed = 0;
        sequence.registered = 0;
        sequence.preempted = true;
        self.displaced |= sequence.owed != 0;
        self.stats.preemptions += 1;
        let tokens = std::mem::take(&mut sequence.scheduled);
        match self.spec.policy {
            Policy::Fcfs => self.waiting.push_front(sequence),
            Policy::Priority => self.queue_by_rank(sequence),
        }
        tokens
    }

    /// Admits from the front of the queue while sequences, tokens and blocks allow; never past the first that must
    /// wait.
    fn admit(&mut self, budget: &mut usize, now: Timestamp) {
        let mut at = 0;
        while *budget > 0 && self.running.len() < self.spec.max_num_seqs {
            let Some(sequence) = self.waiting.get_mut(at) else { return };
            if sequence.fetched(&self.spec).is_some_and(|then| then > now) {
                // Its KV is being transferred; later ones need not wait for it.
                at += 1;
                continue;
            }
            if self.spec.enable_prefix_caching {
                // Lazily: sequences at the back of the queue use no memory for hashes.
                extend_hashes(sequence, self.spec.block_size);
            }
            // At least one token must be computed to sample the next.
            let usable = (sequence.known_tokens() - 1) / self.spec.block_size;
            let hits = self.pool.find(&sequence.hashes[..usable.min(sequence.hashes.len())]);
            let cached = hits.len() * self.spec.block_size;
            let there = if sequence.is_filled(&self.spec) { sequence.known_tokens() - 1 } else { cached };
            let tokens = (sequence.known_tokens() - there).min(*budget);
            let split = tokens < sequence.known_tokens() - there;
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
                self.stats.prefix_cache_queries += sequence.known_tokens() as u64;
                self.stats.prefix_cache_hits += cached as u64;
            }
            if sequence.job.remote && !sequence.preempted {
                self.stats.external_cache_queries += (sequence.known_tokens() - cached) as u64;
                self.stats.external_cache_hits += (there - cached) as u64;
            }
            if sequence.admitted.is_none() {
                sequence.admitted = Some(now);
                sequence.cached = there;
                self.stats.queue_time.observe(now.since(sequence.arrived).as_secs_f64());
            }
            self.running.extend(self.waiting.remove(at));
            self.schedule_tokens(self.running.len() - 1, tokens);
            *budget -= tokens;
        }
    }

    /// Schedules `tokens` of the sequence at `at`, and registers the blocks that they fill.
    fn schedule_tokens(&mut self, at: usize, tokens: usize) {
        let sequence = &mut self.running[at];
        sequence.scheduled = tokens;
        let filled = |block: usize| (block + 1) * self.spec.block_size <= sequence.computed + tokens;
        while sequence.registered < sequence.hashes.len() && filled(sequence.registered) {
            let block = sequence.registered;
            self.pool.register(sequence.blocks[block], sequence.hashes[block]);
            sequence.registered += 1;
        }
    }

    /// Advances the scheduled sequences; returns the batch, and the sum of tokens that its prompt tokens attend to.
    fn advance(&mut self) -> (BatchShape, f64) {
        let (mut batch, mut attention) = (BatchShape::default(), 0.0);
        let (mark, repeated) = (self.flights.mark(), self.repeated_reads());
        self.batch.iter_mut().for_each(Vec::clear);
        for sequence in self.running.iter_mut().filter(|sequence| sequence.scheduled > 0) {
            batch.sequences += 1;
            batch.kv_tokens += sequence.computed + sequence.scheduled;
            let is_decode = sequence.decoding();
            if let Some(recorded) = &mut self.batch {
                let (id, tokens, computed) = (sequence.id, sequence.scheduled, sequence.computed);
                let is_recomputed = !is_decode && sequence.produced > 0;
                recorded.push(Scheduled { id, tokens, computed, is_decode, is_recomputed });
            }
            if is_decode {
                batch.decode_sequences += 1;
            } else {
                batch.prefill_tokens += sequence.scheduled;
                let chunk = sequence.scheduled as f64;
                attention += chunk * (sequence.computed as f64 + (chunk + 1.0) / 2.0);
            }
            if sequence.advance(mark) && self.spec.enable_prefix_caching {
                extend_hashes(sequence, self.spec.block_size);
            }
        }
        batch.kv_tokens = batch.kv_tokens.saturating_sub(repeated * self.spec.block_size);
        (batch, attention)
    }

    /// Number of blocks in the batch that are read more than once. Complete sequences hold blocks and read none.
    fn repeated_reads(&self) -> usize {
        let complete = self.running.iter().filter(|sequence| sequence.is_complete());
        let unread: usize = complete.map(|sequence| self.pool.shared_among(&sequence.blocks)).sum();
        self.pool.extra_references().saturating_sub(unread)
    }

    /// Ends the current iteration at `now` and appends the tokens that are out by then, in batch order; those of
    /// preempted sequences come last.
    pub fn end_step(&mut self, now: Timestamp, events: &mut Vec<TokenEvent>) {
        let lands = self.turn.take().is_some_and(|turn| turn.lands);
        let Some(flight) = lands.then(|| self.flights.land()).flatten() else { return };
        self.stats.steps += 1;
        let tokens = flight.batch.prefill_tokens + flight.batch.decode_sequences;
        self.stats.iteration_tokens.observe(tokens as f64);
        if self.emit(&flight, now, events) {
            self.remove_finished();
        }
    }

    /// Emits the tokens of a step; returns whether any was the last of a sequence.
    fn emit(&mut self, flight: &Flight, now: Timestamp, events: &mut Vec<TokenEvent>) -> bool {
        let (mut gaps, mut finished) = (Gaps::default(), false);
        // Preempted sequences still get their token.
        let back = if std::mem::take(&mut self.displaced) { self.waiting.len() } else { 0 };
        let sequences = self.running.iter_mut().chain(self.waiting.iter_mut().take(back));
        for sequence in sequences.filter(|sequence| sequence.owed & flight.mark != 0) {
            sequence.owed ^= flight.mark;
            let event = emit(sequence, now, &mut gaps, &mut self.stats);
            finished |= event.finish.is_some();
            events.push(event);
        }
        gaps.count(&mut self.stats);
        finished
    }

    fn remove_finished(&mut self) {
        let pool = &mut self.pool;
        self.running.retain_mut(|sequence| {
            let done = sequence.is_emitted();
            if done {
                pool.release(&mut sequence.blocks);
            }
            !done
        });
    }

    /// The time at which a KV transfer ends, if no other event wakes the engine.
    pub fn wakes(&self) -> Option<Timestamp> {
        self.waiting.iter().filter_map(|sequence| sequence.fetched(&self.spec)).min()
    }

    /// Drops all cached prefixes; refused (false) while any sequence holds blocks.
    pub fn reset_prefix_cache(&mut self) -> bool {
        self.pool.drop_cached()
    }

    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.running.is_empty()
    }

    /// Free blocks, including those with cached prefixes.
    pub fn free_blocks(&self) -> usize {
        self.pool.free()
    }

    /// Updates the gauges and returns the statistics.
    pub fn stats(&mut self) -> &Stats {
        self.stats.running = self.running.len();
        self.stats.waiting = self.waiting.len();
        self.stats.kv_cache_usage = 1.0 - self.pool.free() as f64 / self.pool.total() as f64;
        &self.stats
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
        assert_eq!(
            refs.iter().map(|refs| refs.saturating_sub(1) as usize).sum::<usize>(),
            self.pool.extra_references()
        );
    }

    pub(super) fn running_ids(&self) -> Vec<u64> {
        self.running.iter().map(|sequence| sequence.id.0).collect()
    }

    pub(super) fn waiting_ids(&self) -> Vec<u64> {
        self.waiting.iter().map(|sequence| sequence.id.0).collect()
    }
}
