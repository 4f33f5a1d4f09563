//! `tacho capacity`: the maximum load at which a server meets SLOs.

mod answer;

use std::{path::Path, rc::Rc};

use tacho_core::{EventSink, Note, RunEvent};
use tacho_run::experiment::{AfterBench, Links, ParamSet, ResetKind};
use tacho_run::sweep::{LoadVariable, SearchFlags, SlaPlan, SweepPlan, sla};

use super::sweep::{Commands, Files, draw, make_directory, running, screen, supervised, verdict};
use super::{history::store::Store, serve::simulator};
use crate::{args::capacity::CapacityArgs, exit::Exit, interrupt::Interrupt};

/// Requests of the first run, all at once; by concurrency and sessions also the largest load.
const FIRST_REQUESTS: u32 = 200;
const FIRST_RUN: f64 = 0.1;
/// The tolerance of a search is a fraction of the precision: its range may be 2.25 times as wide.
const PRECISION_PER_TOLERANCE: f64 = 225.0;
const BUDGET: &str = "--budget";

pub(crate) fn run(args: &CapacityArgs) -> anyhow::Result<Exit> {
    // A signal terminates the program immediately: files are written atomically.
    let interrupt = Interrupt::catch()?;
    let store = Store::of(&args.history)?;
    let simulator = simulator::start(&args.run)?.map(Rc::new);
    let servers = args.run.base_urls();
    if simulator.is_none() {
        let patience = u64::try_from(args.run.load.ready_check_timeout_sec).unwrap_or(0);
        running::reach(&servers, patience, "--ready-check-timeout-sec")?;
    }
    let now = jiff::Zoned::now().strftime("capacity-%Y%m%d-%H%M%S").to_string();
    let experiment = args.directory.join(now);
    make_directory(&experiment, "--result-dir")?;
    interrupt.farewell(format!("interrupted: the finished runs are in {}", experiment.display()));
    let plan = plan(args, &experiment)?;
    let server = if simulator.is_some() { "the simulator".to_owned() } else { servers.join(", ") };
    let screen = screen(&args.live, false)?;
    screen.event(RunEvent::status(answer::header(&server, &args.flags)));
    // One line per run of the search, and everything but its other lines.
    let levels = |event| match event {
        RunEvent::Status(Note::Sweep { brief, .. }) if !brief.is_empty() => screen.event(RunEvent::status(brief)),
        RunEvent::Status(Note::Sweep { .. } | Note::Command(..) | Note::Table { .. }) => {}
        other => screen.event(other),
    };
    let commands = Commands::searching(&plan.sweep.supervised, simulator.as_ref(), &levels);
    let files = Files::new(experiment.clone()).of_search(store);
    let (report, answers) = sla(&plan, commands.tools(&files)).map_err(|error| match error {
        // The advice of a sweep, to resume, does not apply.
        tacho_run::experiment::Error::Ended(failure) => anyhow::anyhow!(failure.text),
        error => error.into(),
    })?;
    screen.close();
    answers.iter().try_for_each(|found| answer::show(&args.flags, found, &experiment))?;
    files.keep(&answers);
    draw(&experiment, answer::FILE)?;
    verdict(&report)
}

fn plan(args: &CapacityArgs, experiment: &Path) -> anyhow::Result<SlaPlan> {
    let variable = args.flags.by;
    let mut bench_cmd = args.command.clone();
    bench_cmd.push(format!("--{}", variable.size_key().replace('_', "-")));
    bench_cmd.push(FIRST_REQUESTS.to_string());
    if variable == LoadVariable::Sessions {
        // The next session starts when another ends, not at its recorded time.
        bench_cmd.extend(["--session-rate", "inf"].map(str::to_owned));
    }
    let sweep = SweepPlan {
        serve_cmd: None,
        bench_cmd,
        after: AfterBench::Reset(ResetKind::Nothing),
        supervised: supervised(false)?,
        serve_sets: vec![ParamSet::default()],
        bench_sets: vec![ParamSet::default()],
        links: Links::default(),
        experiment: experiment.to_owned(),
        num_runs: 1,
        warmup_prompts: 0,
        continue_on_error: false,
        dry_run: false,
    };
    Ok(SlaPlan {
        sweep,
        variable,
        targets: vec![args.flags.slos.clone()],
        tolerance: args.flags.precision / PRECISION_PER_TOLERANCE,
        seconds: None,
        budget: args.flags.budget,
        first_run: (variable == LoadVariable::RequestRate).then_some(FIRST_RUN * args.flags.budget),
        ramps: variable == LoadVariable::MaxConcurrency,
        flags: SearchFlags { slo: "--slo", budget: BUDGET, seconds: BUDGET },
    })
}
