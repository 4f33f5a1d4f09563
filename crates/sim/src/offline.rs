//! The engine as a library: no server and no clock; batches run in virtual time as fast as the machine allows.

use std::{sync::Arc, time::Duration};

use tacho_core::{Content, Request, Timestamp, json::Value};
use tacho_engine::{CostModel, Engine, EngineSpec, Finish, Job, Rejection, SeqId};
use tacho_text::{Tokenizer, prompt_ids};

use crate::Error;

/// Loading weights from storage, as a multiple of reading them from device memory.
const STORAGE_FACTOR: f64 = 500.0;
/// Seconds to compile the model's graphs, without and with a cache.
const COMPILATION: [f64; 2] = [20.0, 2.0];
/// Seconds of the stages of one media item, in order.
const STAGES: [(&str, f64); 5] = [
    ("get_mm_hashes_secs", 0.001),
    ("get_cache_missing_items_secs", 0.0001),
    ("apply_hf_processor_secs", 0.008),
    ("merge_mm_kwargs_secs", 0.0002),
    ("apply_prompt_updates_secs", 0.0003),
];
/// Seconds of the encoder for one item.
const ENCODER: f64 = 0.005;

#[derive(Debug)]
pub struct Offline {
    engine: Engine,
    tokenizer: Arc<Tokenizer>,
    /// Virtual time continues from run to run.
    now: Timestamp,
    next_id: u64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StartUp {
    pub load: f64,
    /// The part spent on compiling.
    pub compilation: f64,
}

impl StartUp {
    /// The start of an engine with these costs; `cached` when it has been compiled before.
    pub fn of(cost: &CostModel, cached: bool) -> Self {
        let compilation = COMPILATION[usize::from(cached)];
        StartUp { load: cost.fixed_ns / 1e9 * STORAGE_FACTOR + compilation, compilation }
    }
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Drained {
    /// Seconds from the first request to the last token, media included.
    pub seconds: f64,
    /// Prompt tokens, once per request.
    pub prompt_tokens: u64,
    pub output_tokens: u64,
    /// Per request, milliseconds to its last token.
    pub latencies_ms: Vec<f64>,
    pub media: Vec<MediaTimes>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct MediaTimes {
    pub request: usize,
    pub items: u64,
    /// Seconds per stage of the processor, by vLLM's names.
    pub stages: Vec<(&'static str, f64)>,
    pub encoder: f64,
}

impl MediaTimes {
    fn of(request: usize, items: u64) -> Self {
        let count = items as f64;
        let stages = STAGES.iter().map(|(name, time)| (*name, time * count)).collect();
        MediaTimes { request, items, stages, encoder: ENCODER * count }
    }

    fn seconds(&self) -> f64 {
        self.stages.iter().map(|(_, time)| time).sum::<f64>() + self.encoder
    }
}

impl Offline {
    pub fn new(spec: EngineSpec, cost: CostModel, tokenizer: Arc<Tokenizer>) -> Result<Self, Error> {
        Ok(Offline { engine: Engine::new(spec, cost)?, tokenizer, now: Timestamp::ZERO, next_id: 0 })
    }

    pub fn forget(&mut self) {
        self.engine.reset_prefix_cache();
    }

    /// Runs all requests to completion, with `n` choices each.
    pub fn run(&mut self, requests: &[Request], n: u64) -> Result<Drained, Rejection> {
        let mut drained = Drained { latencies_ms: vec![0.0; requests.len()], ..Drained::default() };
        let owners = self.submit(requests, n, &mut drained)?;
        let (start, first) = (self.now, self.next_id - owners.len() as u64);
        let mut events = Vec::new();
        while let Some(step) = self.engine.begin_step(self.now) {
            self.now = self.now + step.takes;
            self.engine.end_step(self.now, &mut events);
            drained.output_tokens += events.len() as u64;
            for event in events.drain(..).filter(|event| event.finish.is_some()) {
                let owner = owners[(event.id.0 - first) as usize];
                drained.latencies_ms[owner] = self.now.since(start).as_secs_f64() * 1e3;
            }
        }
        drained.seconds = self.now.since(start).as_secs_f64();
        self.process_media(requests, &mut drained);
        Ok(drained)
    }

    /// Submits all jobs, or none; returns the request of each.
    fn submit(&mut self, requests: &[Request], n: u64, drained: &mut Drained) -> Result<Vec<usize>, Rejection> {
        let jobs: Vec<Vec<Job>> = requests.iter().map(|request| self.jobs(request, n)).collect();
        jobs.iter().flatten().try_for_each(|job| self.engine.check(job))?;
        let mut owners = Vec::new();
        for (owner, jobs) in jobs.into_iter().enumerate() {
            drained.prompt_tokens += jobs.first().map_or(0, |job| job.prompt.len() as u64);
            for job in jobs {
                self.engine.submit(SeqId(self.next_id), job, self.now)?;
                owners.push(owner);
                self.next_id += 1;
            }
        }
        Ok(owners)
    }

    fn jobs(&self, request: &Request, count: u64) -> Vec<Job> {
        let prompt = prompt_ids(request, &self.tokenizer);
        let priority = request.overrides.as_ref().and_then(|fields| fields.get("priority")).and_then(Value::as_i64);
        let output = |at: u64| (0..request.output_len).map(|place| (place as u64 * 31 + at) as u32).collect();
        let job = |at| Job {
            priority: priority.unwrap_or(0),
            ..Job::generate(Arc::clone(&prompt), output(at), Finish::Length)
        };
        (0..count).map(job).collect()
    }

    /// Media are processed one request after another, before anything is scheduled.
    fn process_media(&mut self, requests: &[Request], drained: &mut Drained) {
        for (at, request) in requests.iter().enumerate() {
            let items = media_items(request);
            if items > 0 {
                let media = MediaTimes::of(at, items);
                drained.latencies_ms[at] += media.seconds() * 1e3;
                drained.seconds += media.seconds();
                self.now = self.now + Duration::from_secs_f64(media.seconds());
                drained.media.push(media);
            }
        }
    }
}

/// Content parts other than text.
fn media_items(request: &Request) -> u64 {
    fn count(value: &Value) -> u64 {
        match value {
            Value::List(items) => items.iter().map(count).sum(),
            Value::Dict(dict) if dict.get("content").is_some() => dict.get("content").map_or(0, count),
            Value::Dict(dict) => u64::from(dict.text("type").is_some_and(|kind| kind != "text")),
            _ => 0,
        }
    }
    let inside = if let Content::Json(value) = &request.content { count(value) } else { 0 };
    inside + request.media.as_ref().map_or(0, count) + request.chat_messages.as_ref().map_or(0, count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tacho_engine::{Policy, Profile};

    fn offline(spec: EngineSpec) -> Offline {
        Offline::new(spec, Profile::Tiny.cost(), Arc::new(Tokenizer::builtin())).unwrap()
    }

    #[test]
    fn all_requests_run_on_model_time() {
        let mut offline = offline(Profile::Tiny.engine());
        let requests = [Request::text("one two three", 3, 4), Request::text("four", 1, 2)];
        let drained = offline.run(&requests, 2).unwrap();
        assert_eq!((drained.prompt_tokens, drained.output_tokens), (4, 12));
        assert!(drained.latencies_ms[0] > drained.latencies_ms[1]);
        assert!((drained.seconds * 1e3 - drained.latencies_ms[0]).abs() < 1e-9);
    }

    #[test]
    fn a_request_that_can_never_run_leaves_nothing_behind() {
        let mut offline = offline(EngineSpec { max_model_len: 8, ..Profile::Tiny.engine() });
        assert!(offline.run(&[Request::text("a", 1, 2), Request::text("a", 1, 9)], 1).is_err());
        assert_eq!(offline.run(&[Request::text("a", 1, 2)], 1).unwrap().output_tokens, 2);
    }

    #[test]
    fn priorities_order_requests_under_the_priority_policy() {
        let request = |priority: i64| {
            let overrides = [("priority".to_owned(), Value::from(priority))].into_iter().collect();
            Request { overrides: Some(Value::Dict(overrides)), ..Request::text("word", 1, 4) }
        };
        let ends = |policy: Policy| {
            let spec = EngineSpec { max_num_seqs: 1, policy, ..Profile::Tiny.engine() };
            offline(spec).run(&[request(5), request(-1)], 1).unwrap().latencies_ms
        };
        let (fcfs, priority) = (ends(Policy::Fcfs), ends(Policy::Priority));
        assert!(fcfs[0] < fcfs[1]);
        assert!(priority[0] > priority[1]);
    }
}
