//! Table of the subcommands. One file each: arguments to plan, plan to run, record to reports.

mod ab_test;
mod auto_tune;
mod backend;
mod capacity;
mod check;
mod compare;
mod convert;
mod dataset;
mod explain;
mod fit;
#[cfg(test)]
mod fuzz;
mod gate;
mod multi_turn;
mod offline;
mod outputs;
mod plan;
mod platform;
mod record;
mod report;
mod scenario;
mod screen;
mod selfcheck;
pub(crate) mod serve;
mod shell;
mod sign_in;
pub(crate) mod sim;
mod suite;
pub(crate) mod supervise;
pub(crate) mod sweep;
mod what_if;

use tacho_args::command::{find, read};
use tacho_args::flag::Table;
use tacho_args::grammar::{Parsed, Values};

use crate::args::ab_test::AbTestArgs;
use crate::args::auto_tune::AutoTuneArgs;
use crate::args::backend::BackendCheckArgs;
use crate::args::capacity::CapacityArgs;
use crate::args::check::CheckArgs;
use crate::args::compare::CompareArgs;
use crate::args::convert::{SharegptArgs, SlicesArgs, TraceArgs};
use crate::args::explain::ExplainArgs;
use crate::args::fit::FitArgs;
use crate::args::gate::GateArgs;
use crate::args::multi_turn::MultiTurnArgs;
use crate::args::offline::mm_processor::MmProcessorArgs;
use crate::args::offline::throughput::ThroughputArgs;
use crate::args::offline::{LatencyArgs, StartupArgs};
use crate::args::plan::PlanArgs;
use crate::args::program::{Command, ENGINE, PLANNING, RESULTS, SERIES, SERVER, UTILITIES, task};
use crate::args::record::RecordArgs;
use crate::args::report::ReportCommandArgs;
use crate::args::scenario::long_document::LongDocumentArgs;
use crate::args::scenario::prefix_caching::PrefixCachingArgs;
use crate::args::scenario::prioritization::PrioritizationArgs;
use crate::args::scenario::structured::StructuredArgs;
use crate::args::scripts::understood;
use crate::args::selfcheck::SelfcheckArgs;
use crate::args::serve::ServeArgs;
use crate::args::shell::{InitArgs, ManArgs, Shell};
use crate::args::sim::SimArgs;
use crate::args::suite::SuiteArgs;
use crate::args::sweep::plot::PlotArgs;
use crate::args::sweep::plot_pareto::ParetoArgs;
use crate::args::sweep::{StartupSweepArgs, SweepArgs};
use crate::args::what_if::WhatIfArgs;
use crate::args::{self, ArgError};

/// All commands in help order. A row has the words that select a command, its flags, and its function.
#[rustfmt::skip]
pub(crate) static COMMANDS: &[Command] = &[
    Command { spellings: &["serve", "bench serve"], section: SERVER, table: &args::serve::TABLE,
        prepare: |v| task(ServeArgs::read(v), serve::run) },
    Command { spellings: &["capacity"], section: SERVER, table: &args::capacity::TABLE,
        prepare: |v| task(CapacityArgs::read(&v), capacity::run) },
    Command { spellings: &["throughput", "bench throughput"], section: ENGINE, table: &args::offline::throughput::TABLE,
        prepare: |v| task(ThroughputArgs::read(&v), offline::throughput::run) },
    Command { spellings: &["latency", "bench latency"], section: ENGINE, table: &args::offline::LATENCY_TABLE,
        prepare: |v| task(LatencyArgs::read(&v), offline::latency) },
    Command { spellings: &["startup", "bench startup"], section: ENGINE, table: &args::offline::STARTUP_TABLE,
        prepare: |v| task(StartupArgs::read(&v), offline::startup) },
    Command { spellings: &["mm-processor", "bench mm-processor"], section: ENGINE, table: &args::offline::mm_processor::TABLE,
        prepare: |v| task(MmProcessorArgs::read(&v), offline::mm_processor) },
    Command { spellings: &["multi-turn"], section: SERVER, table: &args::multi_turn::TABLE,
        prepare: |v| task(MultiTurnArgs::read(&v), multi_turn::run) },
    Command { spellings: &["structured-output"], section: SERVER, table: &args::scenario::structured::TABLE,
        prepare: |v| task(StructuredArgs::read(&v), scenario::structured::run) },
    Command { spellings: &["prefix-caching"], section: SERVER, table: &args::scenario::prefix_caching::TABLE,
        prepare: |v| task(PrefixCachingArgs::read(&v), scenario::prefix_caching) },
    Command { spellings: &["long-doc-qa"], section: SERVER, table: &args::scenario::long_document::TABLE,
        prepare: |v| task(LongDocumentArgs::read(&v), scenario::long_document) },
    Command { spellings: &["prioritization"], section: SERVER, table: &args::scenario::prioritization::TABLE,
        prepare: |v| task(PrioritizationArgs::read(&v), scenario::prioritization) },
    Command { spellings: &["selfcheck"], section: UTILITIES, table: &args::selfcheck::TABLE,
        prepare: |v| task(SelfcheckArgs::parse(&v), selfcheck::run) },
    Command { spellings: &["sweep serve", "bench sweep serve"], section: SERIES, table: &args::sweep::SERVE,
        prepare: |v| task(SweepArgs::serve(&v), sweep::run) },
    Command { spellings: &["sweep serve_workload", "bench sweep serve_workload"], section: SERIES, table: &args::sweep::SERVE_WORKLOAD,
        prepare: |v| task(SweepArgs::serve_workload(&v), sweep::run) },
    Command { spellings: &["sweep serve_sla", "bench sweep serve_sla"], section: SERIES, table: &args::sweep::SERVE_SLA,
        prepare: |v| task(SweepArgs::serve_sla(&v), sweep::run) },
    Command { spellings: &["sweep startup", "bench sweep startup"], section: SERIES, table: &args::sweep::STARTUP,
        prepare: |v| task(StartupSweepArgs::read(&v), sweep::run_startup) },
    Command { spellings: &["auto-tune"], section: SERIES, table: &args::auto_tune::TABLE,
        prepare: |v| task(AutoTuneArgs::read(&v), auto_tune::run) },
    Command { spellings: &["suite"], section: SERIES, table: &args::suite::TABLE,
        prepare: |v| task(SuiteArgs::read(&v), suite::run) },
    Command { spellings: &["ab-test"], section: SERIES, table: &args::ab_test::TABLE,
        prepare: |v| task(AbTestArgs::read(&v), ab_test::run) },
    Command { spellings: &["sim"], section: UTILITIES, table: &args::sim::TABLE,
        prepare: |v| task(Ok::<_, ArgError>(SimArgs::from(&v)), sim::run) },
    Command { spellings: &["fit"], section: PLANNING, table: &args::fit::TABLE,
        prepare: |v| task(FitArgs::read(&v), fit::run) },
    Command { spellings: &["predict"], section: PLANNING, table: &args::serve::PREDICT,
        prepare: |v| task(ServeArgs::read_simulated(v), serve::predict::run) },
    Command { spellings: &["plan"], section: PLANNING, table: &args::plan::TABLE,
        prepare: |v| task(PlanArgs::parse(&v), plan::run) },
    Command { spellings: &["whatif"], section: PLANNING, table: &args::what_if::TABLE,
        prepare: |v| task(WhatIfArgs::parse(&v), what_if::run) },
    Command { spellings: &["compare"], section: RESULTS, table: &args::compare::TABLE,
        prepare: |v| task(CompareArgs::read(&v), compare::run) },
    Command { spellings: &["gate"], section: RESULTS, table: &args::gate::TABLE,
        prepare: |v| task(GateArgs::read(&v), gate::run) },
    Command { spellings: &["explain"], section: RESULTS, table: &args::explain::TABLE,
        prepare: |v| task(ExplainArgs::parse(&v), explain::run) },
    Command { spellings: &["check"], section: RESULTS, table: &args::check::TABLE,
        prepare: |v| task(CheckArgs::parse(&v), check::run) },
    Command { spellings: &["report"], section: RESULTS, table: &args::report::TABLE,
        prepare: |v| task(ReportCommandArgs::read(&v), report::run) },
    Command { spellings: &["sweep plot", "bench sweep plot"], section: RESULTS, table: &args::sweep::plot::TABLE,
        prepare: |v| task(PlotArgs::read(&v), sweep::plot::run) },
    Command { spellings: &["sweep plot_pareto", "bench sweep plot_pareto"], section: RESULTS, table: &args::sweep::plot_pareto::TABLE,
        prepare: |v| task(ParetoArgs::read(&v), sweep::plot_pareto::run) },
    Command { spellings: &["record"], section: UTILITIES, table: &args::record::TABLE,
        prepare: |v| task(RecordArgs::parse(&v), record::run) },
    Command { spellings: &["convert txt-slices"], section: UTILITIES, table: &args::convert::SLICES_TABLE,
        prepare: |v| task(Ok::<_, ArgError>(SlicesArgs::from(&v)), convert::slices) },
    Command { spellings: &["convert sharegpt"], section: UTILITIES, table: &args::convert::SHAREGPT_TABLE,
        prepare: |v| task(SharegptArgs::read(&v), convert::sharegpt) },
    Command { spellings: &["convert trace"], section: UTILITIES, table: &args::convert::TRACE_TABLE,
        prepare: |v| task(Ok::<_, ArgError>(TraceArgs::from(&v)), convert::trace) },
    Command { spellings: &["backend check"], section: UTILITIES, table: &args::backend::CHECK_TABLE,
        prepare: |v| task(BackendCheckArgs::parse(&v), backend::check) },
    Command { spellings: &["backend init"], section: UTILITIES, table: &args::backend::INIT_TABLE,
        prepare: |v| task(args::backend::init(&v), backend::init) },
    Command { spellings: &["backend list"], section: UTILITIES, table: &args::backend::LIST_TABLE,
        prepare: |_| task(Ok::<_, ArgError>(()), backend::list) },
    Command { spellings: &["init"], section: UTILITIES, table: &args::shell::INIT,
        prepare: |v| task(Ok::<_, ArgError>(InitArgs::from(&v)), shell::init) },
    Command { spellings: &["completions"], section: UTILITIES, table: &args::shell::COMPLETIONS,
        prepare: |v| task(Shell::read(&v), shell::completions) },
    Command { spellings: &["man"], section: UTILITIES, table: &args::shell::MAN,
        prepare: |v| task(Ok::<_, ArgError>(ManArgs::from(&v)), shell::manual) },
];

/// Parses the arguments if the words select the command of this table; otherwise `None`.
pub(crate) fn values_for(table: &'static Table, words: &[String]) -> Result<Option<Values>, ArgError> {
    match find(COMMANDS, &understood(words)) {
        Some((command, words)) if std::ptr::eq(command.table, table) => match read(table, words)? {
            Parsed::Values(values) => Ok(Some(values)),
            Parsed::Help(_) => Ok(None),
        },
        _ => Ok(None),
    }
}

fn say(lines: &[String]) -> anyhow::Result<()> {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    Ok(crate::exit::show(&tacho_core::secret::redact_known(&text))?)
}
