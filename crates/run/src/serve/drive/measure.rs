//! The measured part of a run: rows from all ranks go to the stop rules, the live display and the store.

use tacho_core::{Fan, Observation, RowSink, Timestamp, Watcher, live::LiveRecorder};
use tacho_fleet::Coordinator;
use tacho_loadgen::{RpsChange, Timeline};
use tacho_metrics::{Caveat, RateChange};

use crate::serve::drive::row_command::{RowCommand, WriteRow};
use crate::serve::drive::{DriveOutput, RunContext};
use crate::serve::log::store::{RowStore, Texts};
use crate::serve::ranks::{Aggregator, Merge, Merged, Peers};
use crate::{
    Error, serve::finish::record::WallClock, serve::finish::samples::SampleSpec, serve::log::RowLog,
    serve::log::rows::Rows, serve::stops::Stops,
};

pub(crate) struct RunOutput<'a> {
    pub(crate) output: DriveOutput,
    pub(crate) rows: Rows,
    pub(crate) log: Option<RowLog<'a>>,
    pub(crate) ranks: Merged,
    pub(crate) rate_changes: Vec<RateChange>,
    pub(crate) wall: WallClock,
    /// How many rows the command for them missed, and why; `None` without a command.
    pub(crate) row_command: Option<(u64, Option<Caveat>)>,
}

impl RunContext<'_> {
    /// Sends the requests and collects the rows of all ranks. The user's command for rows runs at the same time.
    pub(crate) fn run<'l>(
        &self,
        schedule: &Timeline,
        coordinator: Option<Coordinator>,
        log: Option<RowLog<'l>>,
    ) -> Result<RunOutput<'l>, Error> {
        let Some(plan) = &self.plan.row_command else { return self.collect(schedule, coordinator, log, None) };
        std::thread::scope(|scope| {
            let mut command = RowCommand::start(scope, plan, self.row_lines(plan.write, schedule))?;
            let output = self.collect(schedule, coordinator, log, Some(&mut command))?;
            Ok(RunOutput { row_command: Some(command.finish()), ..output })
        })
    }

    /// Converts rows to lines; the first scheduled time is the zero of their times.
    fn row_lines(&self, write: WriteRow, schedule: &Timeline) -> impl Fn(&[Observation], Timestamp) -> Vec<u8> + Send {
        let (plan, prepared, identity) = (self.plan, self.prepared, self.identity);
        let texts = Texts::of(plan);
        let first_due = schedule.scheduled().iter().copied().reduce(f64::min).unwrap_or(0.0);
        move |rows, origin| {
            let requests = identity.requests.lock();
            let spec = SampleSpec::of(plan, prepared, &identity.setup, &requests);
            let mut lines = Vec::new();
            for row in rows {
                let mut row = row.clone();
                texts.drop_text(&mut row);
                row.round(origin);
                write(&spec.sample(row), origin.secs() + first_due, &mut lines);
            }
            lines
        }
    }

    fn collect<'l>(
        &self,
        schedule: &Timeline,
        coordinator: Option<Coordinator>,
        log: Option<RowLog<'l>>,
        row_command: Option<&mut RowCommand<'_>>,
    ) -> Result<RunOutput<'l>, Error> {
        let RunContext { plan, identity, components, interrupt, stop, .. } = *self;
        let clock = components.clock;
        let wall = WallClock::now(clock);
        let mut store =
            RowStore::new(clock, wall, log, Texts::of(plan)).in_stages_of(schedule).judged_by(self.judge.clone());
        let mut stops = Stops::new(&plan.traffic.stops, schedule, identity, stop, clock);
        let mut scribe = LiveRecorder::new(&components.counters);
        let mut rate_changes = RateChanges::of(schedule);
        let peers = coordinator.as_ref().zip(plan.ranks.as_ref());
        let grace = self.rank_plan.traffic.grace;
        let mut watchers: Vec<&mut dyn Watcher> = vec![&mut stops, &mut scribe, &mut rate_changes];
        watchers.extend(row_command.map(|command| command as &mut dyn Watcher));
        let mut rows = Aggregator {
            fan: Fan::new(watchers, &mut store),
            shard: self.shard,
            peers: peers
                .map(|peers| Peers::new(peers, (interrupt, stop), grace, &components.counters, &identity.requests)),
        };
        let start = || {
            let unix_ns = |timestamp| wall.unix_ns(timestamp);
            coordinator
                .as_ref()
                .map_or(Timestamp::ZERO, |coordinator| coordinator.start(&|| interrupt.draining(), &unix_ns))
        };
        let start = coordinator.is_some().then_some(&start as &(dyn Fn() -> Timestamp + Sync));
        let mut output = self.drive(&mut rows, start)?;
        let received = rows.peers.map(Peers::into_received).unwrap_or_default();
        output.telemetry.shift(output.driven.origin.secs());
        let rate_changes = rate_changes.reached(output.driven.origin, &wall);
        let ranks = match coordinator {
            Some(coordinator) => {
                let merge = Merge { plan, prepared: self.prepared, identity, received };
                merge.finish(coordinator, &mut output.driven, &mut |rows| store.rows(rows))?
            }
            None => Merged::default(),
        };
        let (log, rows) = store.into_parts();
        Ok(RunOutput { output, rows, log, ranks, rate_changes, wall, row_command: None })
    }
}

/// Watches for these requests.
#[derive(Default)]
pub(crate) struct RateChanges {
    /// In the order of the requests.
    steps: Vec<(RpsChange, Option<Timestamp>)>,
}

impl RateChanges {
    /// The rate steps of a timeline with a ramp; empty for any other.
    pub(crate) fn of(timeline: &Timeline) -> Self {
        let Some(ramp) = timeline.arrivals().ramp else { return RateChanges::default() };
        RateChanges { steps: ramp.changes(timeline.rates()).into_iter().map(|step| (step, None)).collect() }
    }

    /// The rate steps that were reached, in local time.
    pub(crate) fn reached(self, origin: Timestamp, wall: &WallClock) -> Vec<RateChange> {
        let timestamped = self.steps.into_iter().filter_map(|(step, released)| {
            let reached = if step.index.is_none() { Some(origin) } else { released };
            let timestamp = wall.local(reached?).strftime("%Y-%m-%dT%H:%M:%S%.6f").to_string();
            Some(RateChange { rps: step.rps, timestamp })
        });
        timestamped.collect()
    }
}

impl Watcher for RateChanges {
    fn rows(&mut self, rows: &[Observation]) {
        if self.steps.is_empty() {
            return;
        }
        for row in rows {
            let first = self.steps.partition_point(|(step, _)| step.index < Some(row.index));
            let reached = self.steps[first..].iter_mut().take_while(|(step, _)| step.index == Some(row.index));
            reached.for_each(|(_, released)| *released = Some(row.dispatched));
        }
    }
}
