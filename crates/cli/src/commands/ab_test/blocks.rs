//! The blocks of a test: short runs of `tacho serve` against one server or the other.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::time::Instant;

use tacho_core::{EventSink, json::Value};
use tacho_record::{RunRecord, StoredRun};
use tacho_report::json::{Detail, ResultFile, SaveMode, save};
use tacho_report::{Progress, style::short_tick};
use tacho_run::ab_test::{Arm, Block, Blocks, Outcome, Outputs};
use tacho_run::experiment::{Host, split};

use super::{progress, say};
use crate::args::ab_test::{AbTestArgs, Server};
use crate::commands::screen::{Lines, Screen};
use crate::commands::sweep::running::unstarted;
use crate::commands::sweep::{Commands, is_tacho, make_directory, supervised};
use crate::{args::serve::ServeArgs, commands::serve::run_block, interrupt::Interrupt};

/// Seconds until a started server must be ready, unless `--ready-check-timeout-sec` says otherwise.
const READY: u64 = 1800;
/// Added to the seed for the unmeasured requests that warm up a server that was just started.
const WARMUP_SEED: i64 = 1 << 31;
const SEEDS: i64 = 1 << 32;
/// Requests of the first block if the load has no rate and no limit.
const FIRST: i64 = 32;
/// Most requests of a block that are all sent at once: the speed of the first block says little about more.
const MAX_AT_ONCE: i64 = 1024;

pub(super) struct Measured<'a> {
    args: &'a AbTestArgs,
    load: &'a ServeArgs,
    interrupt: &'a Interrupt,
    began: Instant,
    screen: Screen,
    /// The words of the commands that start the servers; empty for running servers.
    commands: [Vec<String>; 2],
    /// Requests per block; `None` if other flags determine them.
    requests: Option<i64>,
    /// Requests per second of each block until the length of blocks is known.
    speeds: Vec<f64>,
    kept: Option<PathBuf>,
    /// The logs of started servers are next to it.
    log: PathBuf,
}

impl<'a> Measured<'a> {
    pub(super) fn new(
        args: &'a AbTestArgs,
        load: &'a ServeArgs,
        interrupt: &'a Interrupt,
        destination: Option<&Path>,
    ) -> anyhow::Result<Self> {
        let commands = |server: &Server, flag| match server {
            Server::Url(_) => Ok(Vec::new()),
            Server::Command(text) => split(flag, text),
        };
        let [a, b] = &args.servers;
        let rate = load.load.request_rate;
        let kept = destination.filter(|_| load.report.save_detailed).map(|path| path.with_extension("blocks"));
        for side in ["a", "b"] {
            kept.as_ref().map(|kept| make_directory(&kept.join(side), "--result-dir")).transpose()?;
        }
        Ok(Measured {
            args,
            load,
            interrupt,
            began: Instant::now(),
            screen: Screen::open(&args.live, load.tacho.quiet, Progress::Hidden)?.with(Lines::Unwanted),
            commands: [commands(a, "--cmd-a")?, commands(b, "--cmd-b")?],
            requests: args.block.map(|seconds| match load.load.max_concurrency {
                _ if rate.is_finite() => (rate * seconds).ceil().max(2.0) as i64,
                Some(limit) => 2 * limit as i64,
                None => FIRST,
            }),
            speeds: Vec::new(),
            kept,
            log: destination.unwrap_or(Path::new("ab-test.json")).to_owned(),
        })
    }

    /// The arguments of a block against the server at `url`.
    fn block(&self, url: &str, seed: i64) -> anyhow::Result<ServeArgs> {
        let mut values = self.args.load.clone();
        values.set("--base-url", url)?;
        values.put("--seed", Value::from(seed % SEEDS));
        if let Some(requests) = self.requests {
            values.put("--num-prompts", Value::from(requests));
        }
        let mut args = ServeArgs::read(values)?;
        // The outputs of a block are compared with those of another.
        args.report.save_detailed |= args.tacho.check_outputs.take().is_some();
        Ok(args)
    }

    /// Runs the block of a pair, and for the outputs of A once more.
    fn run(&self, arm: Arm, url: &str, pair: u64, sink: &dyn EventSink) -> anyhow::Result<(RunRecord, [Outputs; 2])> {
        let args = self.block(url, self.load.load.seed + pair as i64)?;
        let record = run_block(&args, &self.interrupt.stop, sink)?;
        let is_compared = self.load.tacho.check_outputs.is_some() && pair > 0;
        if !is_compared || record.setup.interrupted {
            return Ok((record, Default::default()));
        }
        let own = outputs(&record);
        let again = match arm {
            Arm::A => outputs(&run_block(&args, &self.interrupt.stop, sink)?),
            Arm::B => Outputs::new(),
        };
        Ok((record, [own, again]))
    }

    fn measured(&mut self, arm: Arm, pair: u64) -> anyhow::Result<Option<Block>> {
        // What the first block says of the load holds for all.
        let sink: &dyn EventSink = if pair == 0 || self.args.live.is_on() { &self.screen } else { &() };
        let (record, [outputs, again]) = match &self.args.servers[arm as usize] {
            Server::Url(url) => self.run(arm, url, pair, sink)?,
            Server::Command(_) => {
                let command = &self.commands[arm as usize];
                let ready = u64::try_from(self.load.load.ready_check_timeout_sec).ok().filter(|max| *max > 0);
                let host = Commands::new(&supervised(false)?, ready.unwrap_or(READY), is_tacho(command), &self.screen);
                let log = self.log.with_extension(if arm == Arm::A { "a.log" } else { "b.log" });
                let started = host.start(command, &[], &log, &self.screen);
                let running = started.map_err(|failure| unstarted(&failure, &log))?;
                if pair > 0 {
                    let seed = self.load.load.seed + pair as i64 + WARMUP_SEED;
                    run_block(&self.block(&running.address, seed)?, &self.interrupt.stop, sink)?;
                }
                self.run(arm, &running.address, pair, sink)?
            }
        };
        if record.setup.interrupted || self.interrupt.stop.draining() {
            return Ok(None);
        }
        self.speeds.push(record.summary.completed as f64 / record.measured.duration);
        if let Some(kept) = self.kept.as_ref().filter(|_| pair > 0) {
            let side = if arm == Arm::A { "a" } else { "b" };
            save(&record, &kept.join(side).join(format!("pair{pair}.json")), Detail::PerRequest, SaveMode::Overwrite)?;
        }
        let result = ResultFile::new(&record, Detail::PerRequest).to_dict();
        Ok(Some(Block { run: StoredRun::from_dict(&result)?, outputs, again }))
    }

    /// Sets the length of blocks after the first pair.
    fn adjust(&mut self, seconds: f64) {
        if let Some(block) = self.args.block.filter(|_| !self.load.load.request_rate.is_finite()) {
            let speed = self.speeds.iter().sum::<f64>() / self.speeds.len() as f64;
            let (min, max) =
                self.load.load.max_concurrency.map_or((2, MAX_AT_ONCE), |limit| (2 * limit as i64, i64::MAX));
            self.requests = Some(((speed * block).round() as i64).clamp(min, max));
        }
        let requests =
            self.requests.map_or_else(|| "as given".to_owned(), |requests| format!("of {requests} requests"));
        let (seconds, budget) = (short_tick(seconds.round()), short_tick(self.args.flags.budget));
        say(self.load.tacho.quiet, &format!("warmed up in {seconds} s; blocks {requests}, budget {budget} s"));
    }
}

fn outputs(record: &RunRecord) -> Outputs {
    let mut found = Outputs::new();
    for sample in record.measured.samples.iter().filter(|sample| sample.success()) {
        found.resize(found.len().max(sample.index + 1), None);
        let mut digest = DefaultHasher::new();
        sample.text.hash(&mut digest);
        found[sample.index] = Some(digest.finish());
    }
    found
}

impl Blocks for Measured<'_> {
    type Error = anyhow::Error;

    fn measure(&mut self, arm: Arm, pair: u64) -> anyhow::Result<Option<Block>> {
        if self.interrupt.stop.draining() {
            return Ok(None);
        }
        let measured = self.measured(arm, pair);
        // A block that has no successful request because it was interrupted is not a failure.
        if measured.is_err() && self.interrupt.stop.draining() { Ok(None) } else { measured }
    }

    fn elapsed(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    fn judged(&mut self, outcome: &Outcome<anyhow::Error>) {
        match outcome.base.is_empty() {
            true => self.adjust(outcome.seconds),
            false => say(self.load.tacho.quiet, &progress(outcome)),
        }
    }
}
