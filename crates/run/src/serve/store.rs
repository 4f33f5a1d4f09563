//! What becomes of the rows of a run: they are logged, and kept for the result.

use std::time::Duration;

use tacho_core::{Clock, Observation, RowSink, Stamp, SystemClock};
use tacho_rowlog::Origin;

use super::log::RowLog;
use super::record::Moments;

/// A run that has gone on for so long is worth a log.
const WORTH_A_LOG: Duration = Duration::from_secs(60);

/// Takes the rows of a run.
pub(super) struct Store<'a> {
    clock: SystemClock,
    moments: &'a Moments,
    log: Option<RowLog<'a>>,
    /// The place in the whole workload of each request that is sent, where only a part of it is.
    places: Option<&'a [usize]>,
    /// Whether texts are wanted beyond what counts tokens.
    keep_texts: bool,
    began: Stamp,
    rows: Vec<Observation>,
}

impl<'a> Store<'a> {
    /// A store that logs to `log`, and gives rows their places in the whole workload.
    pub(super) fn new(
        clock: SystemClock,
        moments: &'a Moments,
        log: Option<RowLog<'a>>,
        places: Option<&'a [usize]>,
        keep_texts: bool,
    ) -> Self {
        Store { clock, moments, log, places, keep_texts, began: Stamp::NEVER, rows: Vec::new() }
    }

    /// The log, and the rows in the order of their requests.
    pub(super) fn into_parts(mut self) -> (Option<RowLog<'a>>, Vec<Observation>) {
        self.rows.sort_unstable_by_key(|row| row.index);
        (self.log, self.rows)
    }

    fn begin_late_log(&mut self) {
        let worth = self.clock.now().since(self.began) >= WORTH_A_LOG;
        if let Some(log) = self.log.as_mut().filter(|log| worth && log.is_waiting()) {
            log.begin_late(&self.rows);
        }
    }
}

impl RowSink for Store<'_> {
    fn began(&mut self, origin: Stamp) {
        self.began = origin;
        if let Some(log) = &mut self.log {
            log.began(Origin { stamp: origin, unix_ns: self.moments.unix_ns(origin) });
        }
    }

    fn rows(&mut self, mut rows: Vec<Observation>) {
        for row in &mut rows {
            if let Some(&place) = self.places.and_then(|places| places.get(row.index)) {
                row.index = place;
            }
            tacho_metrics::logged::shed(row, self.keep_texts);
        }
        if let Some(log) = &mut self.log {
            log.rows(&rows);
        }
        self.rows.append(&mut rows);
        self.begin_late_log();
    }

    fn idle(&mut self) {
        self.begin_late_log();
    }
}
