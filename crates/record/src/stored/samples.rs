//! The requests of a stored run as samples.

use tacho_metrics::{RareFields, Sample, Samples};

use super::{Request, StoredRun};

impl StoredRun {
    /// Its successful requests in send order, with the times that the file has; without token times they are empty.
    pub fn samples(&self) -> Samples {
        let sample = |(index, Request { row, labels }): (usize, &Request)| {
            let sent = row.start?;
            Some(Sample {
                index,
                sent,
                dispatched: sent - row.queued.unwrap_or(0.0),
                scheduled: sent - row.delay.or(row.queued).unwrap_or(0.0),
                done: sent + row.latency?,
                ttft: row.ttft?,
                itl: row.gaps.clone()?.into_owned(),
                latency: row.latency?,
                prompt_len: row.input? as u64,
                output_len: row.output? as u64,
                rare: RareFields { labels: labels.clone(), ..RareFields::default() }.into(),
                ..Sample::default()
            })
        };
        self.requests.rows.iter().enumerate().filter_map(sample).collect()
    }

    /// Whether the load followed a schedule (open loop).
    pub fn is_paced(&self) -> bool {
        self.requests.paced
    }
}
