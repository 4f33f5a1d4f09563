//! Output tokens as events, and the statistics they update.

use std::time::Duration;

use tacho_core::{ServerTimes, Timestamp};

use crate::Stats;
use crate::job::{Finish, Work};
use crate::sequence::{SeqId, Sequence};

/// A token that came out at the end of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenEvent {
    pub id: SeqId,
    /// Index of the output token, from zero.
    pub position: usize,
    pub finish: Option<Finish>,
    pub cached: usize,
    /// How long its phases took, with the last token of a response.
    pub times: Option<ServerTimes>,
}

/// Equal inter-token times, counted together: those of a step mostly are equal.
#[derive(Default)]
pub(super) struct Gaps {
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

    pub(super) fn count(&self, stats: &mut Stats) {
        if self.times > 0 {
            stats.inter_token_latency.observe_times(self.long.as_secs_f64(), self.times);
        }
    }
}

pub(super) fn emit(sequence: &mut Sequence, now: Timestamp, gaps: &mut Gaps, stats: &mut Stats) -> TokenEvent {
    let position = sequence.emitted;
    sequence.emitted += 1;
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
    let (finish, mut times) = (sequence.is_emitted().then_some(sequence.job.finish), None);
    if let Some(reason) = finish {
        stats.e2e_request_latency.observe(now.since(sequence.arrived).as_secs_f64());
        if sequence.job.work == Work::Generate {
            times = Some(count_phases(sequence, now, stats));
        }
        match reason {
            Finish::Stop => stats.finished_stop += 1,
            Finish::Length => stats.finished_length += 1,
        }
    }
    TokenEvent { id: sequence.id, position, finish, cached: sequence.cached, times }
}

fn count_phases(sequence: &Sequence, now: Timestamp, stats: &mut Stats) -> ServerTimes {
    let admitted = sequence.admitted.unwrap_or(sequence.arrived);
    let first = sequence.first_token.unwrap_or(now);
    let decode = now.since(first).as_secs_f64();
    stats.prefill_time.observe(first.since(admitted).as_secs_f64());
    stats.decode_time.observe(decode);
    stats.inference_time.observe(now.since(admitted).as_secs_f64());
    stats.request_prompt_tokens.observe(sequence.job.prompt.len() as f64);
    stats.request_generation_tokens.observe(sequence.emitted as f64);
    if sequence.emitted > 1 {
        stats.time_per_output_token.observe(decode / (sequence.emitted - 1) as f64);
    }
    let micros = |from: Timestamp, to: Timestamp| ServerTimes::micros(to.since(from).as_secs_f64() * 1e6);
    ServerTimes {
        queue: micros(sequence.arrived, admitted),
        prefill: micros(admitted, first),
        decode: micros(first, now),
    }
}
