//! The metrics of a run in vLLM's definitions.

use crate::latency::{collect, itls, tpots};
use crate::throughput::{Totals, per_second};
use crate::{MediaSummary, MetricKind, Sample, Samples, Setup, Statistics, Task, concurrency::PerSecond};

/// Metrics of every run.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// Successful requests.
    pub completed: u64,
    /// Failed requests.
    pub failed: u64,
    /// Prompt tokens of the successes.
    pub total_input: u64,
    /// Successes per second.
    pub request_throughput: f64,
    /// Prompt and generated tokens per second.
    pub total_token_throughput: f64,
    /// End-to-end latency.
    pub e2el: Statistics,
    /// Wait for a slot; always computed, though vLLM shows it only under a concurrency limit.
    pub client_queue_time: Statistics,
    /// End-to-end latency including the wait for a slot.
    pub e2el_including_client_queue: Statistics,
    /// Metrics of the task.
    pub task: TaskSummary,
}

/// Metrics of one kind of task.
#[derive(Debug, Clone, PartialEq)]
pub enum TaskSummary {
    /// Of generation.
    Generation(Box<GenerationSummary>),
    /// Of pooling.
    Pooling(PoolingSummary),
    /// Of generated audio or images.
    Media(Box<MediaSummary>),
}

/// Metrics of generation.
#[derive(Debug, Clone, PartialEq)]
pub struct GenerationSummary {
    /// Generated tokens.
    pub total_output: u64,
    /// Generated tokens per second.
    pub output_throughput: f64,
    /// Requests within their limits per second; `None` without limits.
    pub request_goodput: Option<f64>,
    /// Token events in the peak second.
    pub max_output_tokens_per_s: f64,
    /// Most requests in flight in any one second.
    pub max_concurrent_requests: u64,
    /// Seconds of audio handled per second.
    pub rtfx: f64,
    /// Time to the first token event.
    pub ttft: Statistics,
    /// Time per output token after the first.
    pub tpot: Statistics,
    /// Time between token events.
    pub itl: Statistics,
}

/// Metrics of pooling.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PoolingSummary {
    /// Texts in the successful requests.
    pub total_input_sequences: u64,
    /// Texts per second.
    pub input_sequence_throughput: f64,
}

impl Summary {
    /// Summarizes `samples` of a run that took `duration` seconds.
    ///
    /// ```
    /// use tacho_metrics::{MetricKind, Samples, Setup, Summary};
    ///
    /// /// Mean TTFT in milliseconds of a run that took `duration` seconds.
    /// fn mean_ttft(setup: &Setup, samples: &Samples, duration: f64) -> Option<f64> {
    ///     let summary = Summary::of(setup, samples, duration);
    ///     summary.statistics(MetricKind::Ttft).map(|ttft| ttft.mean_ms)
    /// }
    /// ```
    pub fn of(setup: &Setup, samples: &Samples, duration: f64) -> Self {
        let totals = Totals::of(samples);
        let statistics = |of: fn(&Sample) -> f64| Statistics::of(collect(samples, of), &setup.metric_percentiles);
        Summary {
            completed: totals.completed,
            failed: totals.failed,
            total_input: totals.input,
            request_throughput: per_second(totals.completed as f64, duration),
            total_token_throughput: per_second((totals.input + totals.output) as f64, duration),
            e2el: statistics(|sample| sample.latency),
            client_queue_time: statistics(Sample::queue_time),
            e2el_including_client_queue: statistics(|sample| sample.latency + sample.queue_time()),
            task: match setup.task {
                Task::Generation => {
                    TaskSummary::Generation(Box::new(GenerationSummary::of(setup, samples, &totals, duration)))
                }
                Task::Pooling => TaskSummary::Pooling(PoolingSummary {
                    total_input_sequences: totals.input_sequences,
                    input_sequence_throughput: per_second(totals.input_sequences as f64, duration),
                }),
                Task::Media => TaskSummary::Media(Box::new(MediaSummary::of(setup, samples, duration))),
            },
        }
    }

    /// The statistics of `metric`; pooling and media have none of tokens.
    pub fn statistics(&self, metric: MetricKind) -> Option<&Statistics> {
        match (metric, &self.task) {
            (MetricKind::E2el, _) => Some(&self.e2el),
            (MetricKind::ClientQueueTime, _) => Some(&self.client_queue_time),
            (MetricKind::E2elIncludingClientQueue, _) => Some(&self.e2el_including_client_queue),
            (audio, TaskSummary::Media(media)) => media.audio.as_ref()?.statistics(audio),
            (MetricKind::Ttft, TaskSummary::Generation(generation)) => Some(&generation.ttft),
            (MetricKind::Tpot, TaskSummary::Generation(generation)) => Some(&generation.tpot),
            (MetricKind::Itl, TaskSummary::Generation(generation)) => Some(&generation.itl),
            (_, TaskSummary::Generation(_) | TaskSummary::Pooling(_)) => None,
        }
    }

    /// The metrics of generation, if that was the task.
    pub fn generation(&self) -> Option<&GenerationSummary> {
        match &self.task {
            TaskSummary::Generation(generation) => Some(generation),
            TaskSummary::Pooling(_) | TaskSummary::Media(_) => None,
        }
    }

    /// The metrics of generated media, if that was the task.
    pub fn media(&self) -> Option<&MediaSummary> {
        match &self.task {
            TaskSummary::Media(media) => Some(media),
            TaskSummary::Generation(_) | TaskSummary::Pooling(_) => None,
        }
    }
}

impl GenerationSummary {
    fn of(setup: &Setup, samples: &Samples, totals: &Totals, duration: f64) -> Self {
        let per_second_counts = PerSecond::of(samples);
        let percentiles = &setup.metric_percentiles;
        GenerationSummary {
            total_output: totals.output,
            output_throughput: per_second(totals.output as f64, duration),
            request_goodput: setup.goodput(samples, duration, |_| 0.0),
            max_output_tokens_per_s: per_second_counts.peak_events(),
            max_concurrent_requests: per_second_counts.peak_requests(),
            rtfx: per_second(totals.audio, duration),
            ttft: Statistics::of(collect(samples, |sample| sample.ttft), percentiles),
            tpot: Statistics::of(tpots(samples), percentiles),
            itl: Statistics::of_all(|| itls(samples), percentiles),
        }
    }
}
