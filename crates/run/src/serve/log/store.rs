//! Storage of rows: they are logged, and those that the log does not have stay in memory.

use std::{sync::Arc, time::Duration};

use tacho_core::secret::mask_known;
use tacho_core::stage::STAGE;
use tacho_core::{Clock, Labels, Observation, RowSink, StageSpan, SystemClock, Timestamp};
use tacho_loadgen::Timeline;
use tacho_record::logged;
use tacho_rowlog::Origin;

use crate::serve::log::rows::{Rows, size};
use crate::{plan::ServePlan, serve::finish::record::WallClock, serve::log::RowLog, serve::outputs::Judge};

const MIN_LOGGED: Duration = Duration::from_secs(60);

pub(crate) struct RowStore<'a> {
    clock: SystemClock,
    wall: WallClock,
    log: Option<RowLog<'a>>,
    texts: Texts,
    began: Timestamp,
    kept: Vec<Observation>,
    bytes: usize,
    /// Number of rows that only the log has: its first ones.
    logged: usize,
    /// End of the last request among them.
    last: Timestamp,
    /// Stages whose requests are known by their send times, with their labels.
    stages: (Vec<StageSpan>, Vec<Labels>),
    judge: Arc<Judge>,
}

impl<'a> RowStore<'a> {
    pub(crate) fn new(clock: SystemClock, wall: WallClock, log: Option<RowLog<'a>>, texts: Texts) -> Self {
        let (began, kept) = (Timestamp::NEVER, Vec::new());
        RowStore {
            clock,
            wall,
            log,
            texts,
            began,
            kept,
            bytes: 0,
            logged: 0,
            last: Timestamp::ZERO,
            stages: <_>::default(),
            judge: Arc::default(),
        }
    }

    /// The store with labels for the stages of a closed loop; in an open loop, requests have them from the start.
    pub(crate) fn in_stages_of(mut self, timeline: &Timeline) -> Self {
        let closed = timeline.stages().iter().filter(|stage| stage.limit.is_some());
        self.stages = closed.map(|stage| (stage.clone(), Labels::NONE.with(STAGE, &stage.name))).unzip();
        self
    }

    /// The store of rows whose outputs are checked or graded.
    pub(crate) fn judged_by(self, judge: Arc<Judge>) -> Self {
        RowStore { judge, ..self }
    }

    fn label(&self, row: &mut Observation) {
        if let Some((index, _)) = StageSpan::at(&self.stages.0, row.sent.secs_since(self.began)) {
            row.labels = row.labels.merged(&self.stages.1[index]);
        }
    }

    pub(crate) fn into_parts(mut self) -> (Option<RowLog<'a>>, Rows) {
        let written = self.log.as_mut().and_then(RowLog::take_written);
        let logged = written.filter(|_| self.logged > 0).map(|written| (written, self.logged));
        let spill = self.log.as_ref().and_then(RowLog::spill);
        (self.log, Rows { kept: self.kept, logged, last: self.last, spill, earlier: None })
    }

    fn begin_late_log(&mut self) {
        let worth = self.clock.now().since(self.began) >= MIN_LOGGED;
        if let Some(log) = self.log.as_mut().filter(|log| worth && log.is_waiting()) {
            log.begin_late(&self.kept);
        }
    }

    /// Drops rows that are in the log once they take much memory.
    fn make_room(&mut self) {
        if self.log.as_ref().is_some_and(|log| log.holds_all_beyond(self.bytes)) {
            self.logged += self.kept.len();
            self.last = self.kept.iter().map(|row| row.done).fold(self.last, Timestamp::max);
            self.bytes = 0;
            self.kept.clear();
        }
    }
}

impl RowSink for RowStore<'_> {
    fn began(&mut self, origin: Timestamp) {
        self.began = origin;
        if let Some(log) = &mut self.log {
            log.began(Origin { timestamp: origin, unix_ns: self.wall.unix_ns(origin) });
        }
    }

    fn rows(&mut self, mut rows: Vec<Observation>) {
        for row in &mut rows {
            self.judge.judge(row);
            self.texts.drop_text(row);
            row.round(self.began);
            self.label(row);
        }
        if let Some(log) = &mut self.log {
            log.rows(&rows);
        }
        self.bytes += rows.iter().map(size).sum::<usize>();
        self.kept.append(&mut rows);
        self.begin_late_log();
        self.make_room();
    }

    fn idle(&mut self) {
        self.begin_late_log();
    }
}

pub(crate) struct Texts {
    /// Whether texts are kept even if token counting does not need them.
    keep: bool,
}

impl Texts {
    pub(crate) fn of(plan: &ServePlan) -> Self {
        Texts { keep: plan.report.keep_texts }
    }

    /// Drops an unneeded text, and masks secrets in others.
    pub(crate) fn drop_text(&self, row: &mut Observation) {
        logged::drop_text(row, self.keep);
        mask_known(&mut row.text);
    }
}
