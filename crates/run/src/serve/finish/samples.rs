//! Conversion of rows to samples, one at a time: a row is dropped before the next is read.

use std::collections::HashMap;

use tacho_core::{LabelPool, Observation, RequestInfo, json::Value};
use tacho_loadgen::WorkerStats;
use tacho_metrics::{Caveat, Gather, Sample, Samples, Setup, TokenCounter};
use tacho_text::Tokenizer;

use crate::{Error, plan::ServePlan, serve::log::rows::Rows, serve::prepare::Prepared, serve::request_table::Compact};

pub(crate) struct SampleSpec<'a> {
    pub(crate) setup: &'a Setup,
    pub(crate) tokenizer: Option<&'a Tokenizer>,
    /// The requests, by the rows' indices.
    pub(crate) requests: &'a Compact,
    pub(crate) keep_texts: bool,
    /// Whether requests that the end of the run aborted are excluded.
    pub(crate) leaves_cut_off: bool,
    pub(crate) scores: Option<&'a HashMap<usize, Value>>,
}

impl<'a> SampleSpec<'a> {
    pub(crate) fn of(plan: &ServePlan, prepared: &'a Prepared, setup: &'a Setup, requests: &'a Compact) -> Self {
        let (tokenizer, keep_texts) = (prepared.tokenizer.as_ref(), plan.report.keep_texts);
        SampleSpec { setup, tokenizer, requests, keep_texts, leaves_cut_off: false, scores: None }
    }

    pub(crate) fn sample(&self, row: Observation) -> Sample {
        self.labeled(row, &mut LabelPool::default())
    }

    fn labeled(&self, row: Observation, pool: &mut LabelPool) -> Sample {
        let request = self.requests.get(row.index).unwrap_or_default();
        let scores = self.scores.and_then(|scores| scores.get(&row.index));
        let mut sample = sample(row, &request, self.setup, self.tokenizer, pool);
        if let Some(scores) = scores {
            sample.rare.scores = Some(scores.clone());
        }
        if !self.keep_texts {
            sample.rare.change(|rare| rare.text = Vec::new());
        }
        sample
    }
}

pub(crate) fn sample(
    row: Observation,
    request: &RequestInfo,
    setup: &Setup,
    tokenizer: Option<&Tokenizer>,
    pool: &mut LabelPool,
) -> Sample {
    let counter =
        |text: &[u8]| tokenizer.map_or(1, |tokenizer| tokenizer.count(&String::from_utf8_lossy(text), false) as u64);
    let count: Option<TokenCounter<'_>> = tokenizer.is_some().then_some(&counter);
    let labels = pool.share(request.labels(&row.labels));
    Sample::from_observation(row, request, setup, count).labeled(labels)
}

pub(crate) struct SampledRows {
    pub(crate) samples: Samples,
    /// Number of excluded requests.
    pub(crate) cut_off: u64,
    /// Responses with an impossible token count.
    impossible: u64,
}

impl SampledRows {
    /// Reads all rows. Fails when those in the log cannot be read.
    pub(crate) fn of(rows: Rows, reading: &SampleSpec<'_>) -> Result<Self, Error> {
        let mut taken =
            SampleBuilder { samples: rows.gather(), cut_off: 0, impossible: 0, labels: LabelPool::default() };
        rows.each(|row| taken.take(row, reading))?;
        let SampleBuilder { samples, cut_off, impossible, .. } = taken;
        Ok(SampledRows { samples: samples.finish().0, cut_off, impossible })
    }

    /// Caveats that only rows and workers show.
    pub(crate) fn caveats(&self, workers: &[WorkerStats]) -> Vec<Caveat> {
        let (responses, total) = (self.impossible, self.samples.len() as u64);
        let reads = workers.iter().map(|stats| stats.timestamp_anomalies).sum();
        let usage = (responses > 0).then_some(Caveat::ImpossibleUsage { responses, total });
        let timestamps = (reads > 0).then_some(Caveat::TimestampAnomaly { reads });
        usage.into_iter().chain(timestamps).collect()
    }
}

struct SampleBuilder {
    samples: Gather,
    cut_off: u64,
    impossible: u64,
    labels: LabelPool,
}

impl SampleBuilder {
    fn take(&mut self, row: Observation, reading: &SampleSpec<'_>) {
        if reading.leaves_cut_off && row.is_aborted() {
            self.cut_off += 1;
            return;
        }
        self.impossible += u64::from(row.impossible_usage);
        self.samples.push(reading.labeled(row, &mut self.labels));
    }
}
