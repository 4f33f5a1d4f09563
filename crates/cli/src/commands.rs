//! Table of the subcommands. One file each: arguments to plan, plan to run, record to reports.

mod ab_test;
mod auto_tune;
mod backend;
mod bundle;
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
pub(crate) mod history;
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

use crate::args::bundle::{BundleArgs, ReproduceArgs, VerifyArgs};
use crate::args::convert::{SharegptArgs, SlicesArgs, TraceArgs};
use crate::args::history::{AddArgs, DiffArgs, ListArgs, PruneArgs, ShowArgs, SiteArgs, TrendArgs};
use crate::args::offline::{LatencyArgs, StartupArgs};
use crate::args::program::{Command, ENGINE, HISTORY, PLANNING, RESULTS, SERIES, SERVER, UTILITIES, task};
use crate::args::shell::{InitArgs, ManArgs, Shell};
use crate::args::sweep::{StartupSweepArgs, SweepArgs};
use crate::args::{self, ArgError};
use crate::{
    args::ab_test::AbTestArgs, args::auto_tune::AutoTuneArgs, args::backend::BackendCheckArgs,
    args::capacity::CapacityArgs, args::check::CheckArgs, args::compare::CompareArgs, args::explain::ExplainArgs,
    args::fit::FitArgs, args::gate::GateArgs, args::multi_turn::MultiTurnArgs,
    args::offline::mm_processor::MmProcessorArgs, args::offline::throughput::ThroughputArgs, args::plan::PlanArgs,
    args::record::RecordArgs, args::report::ReportCommandArgs, args::scenario::long_document::LongDocumentArgs,
    args::scenario::prefix_caching::PrefixCachingArgs, args::scenario::prioritization::PrioritizationArgs,
    args::scenario::structured::StructuredArgs, args::scripts::understood, args::selfcheck::SelfcheckArgs,
    args::serve::ServeArgs, args::sim::SimArgs, args::suite::SuiteArgs, args::sweep::plot::PlotArgs,
    args::sweep::plot_pareto::ParetoArgs, args::what_if::WhatIfArgs,
};

/// All commands in help order. A row has the words that select a command, its flags, and its function.
#[rustfmt::skip]
pub(crate) static COMMANDS: &[Command] = &[
    Command::new(&["serve", "bench serve"], SERVER, &args::serve::TABLE, |v| task(ServeArgs::read(v), serve::run)),
    Command::new(&["capacity"], SERVER, &args::capacity::TABLE, |v| task(CapacityArgs::read(&v), capacity::run)),
    Command::new(&["throughput", "bench throughput"], ENGINE, &args::offline::throughput::TABLE, |v| task(ThroughputArgs::read(&v), offline::throughput::run)),
    Command::new(&["latency", "bench latency"], ENGINE, &args::offline::LATENCY_TABLE, |v| task(LatencyArgs::read(&v), offline::latency)),
    Command::new(&["startup", "bench startup"], ENGINE, &args::offline::STARTUP_TABLE, |v| task(StartupArgs::read(&v), offline::startup)),
    Command::new(&["mm-processor", "bench mm-processor"], ENGINE, &args::offline::mm_processor::TABLE, |v| task(MmProcessorArgs::read(&v), offline::mm_processor)),
    Command::new(&["multi-turn"], SERVER, &args::multi_turn::TABLE, |v| task(MultiTurnArgs::read(&v), multi_turn::run)),
    Command::new(&["structured-output"], SERVER, &args::scenario::structured::TABLE, |v| task(StructuredArgs::read(&v), scenario::structured::run)),
    Command::new(&["prefix-caching"], SERVER, &args::scenario::prefix_caching::TABLE, |v| task(PrefixCachingArgs::read(&v), scenario::prefix_caching)),
    Command::new(&["long-doc-qa"], SERVER, &args::scenario::long_document::TABLE, |v| task(LongDocumentArgs::read(&v), scenario::long_document)),
    Command::new(&["prioritization"], SERVER, &args::scenario::prioritization::TABLE, |v| task(PrioritizationArgs::read(&v), scenario::prioritization)),
    Command::new(&["selfcheck"], UTILITIES, &args::selfcheck::TABLE, |v| task(SelfcheckArgs::parse(&v), selfcheck::run)),
    Command::new(&["sweep serve", "bench sweep serve"], SERIES, &args::sweep::SERVE, |v| task(SweepArgs::serve(&v), sweep::run)),
    Command::new(&["sweep serve_workload", "bench sweep serve_workload"], SERIES, &args::sweep::SERVE_WORKLOAD, |v| task(SweepArgs::serve_workload(&v), sweep::run)),
    Command::new(&["sweep serve_sla", "bench sweep serve_sla"], SERIES, &args::sweep::SERVE_SLA, |v| task(SweepArgs::serve_sla(&v), sweep::run)),
    Command::new(&["sweep startup", "bench sweep startup"], SERIES, &args::sweep::STARTUP, |v| task(StartupSweepArgs::read(&v), sweep::run_startup)),
    Command::new(&["auto-tune"], SERIES, &args::auto_tune::TABLE, |v| task(AutoTuneArgs::read(&v), auto_tune::run)),
    Command::new(&["suite"], SERIES, &args::suite::TABLE, |v| task(SuiteArgs::read(&v), suite::run)),
    Command::new(&["ab-test"], SERIES, &args::ab_test::TABLE, |v| task(AbTestArgs::read(&v), ab_test::run)),
    Command::new(&["sim"], UTILITIES, &args::sim::TABLE, |v| task(Ok::<_, ArgError>(SimArgs::from(&v)), sim::run)),
    Command::new(&["fit"], PLANNING, &args::fit::TABLE, |v| task(FitArgs::read(&v), fit::run)),
    Command::new(&["predict"], PLANNING, &args::serve::PREDICT, |v| task(ServeArgs::read_simulated(v), serve::predict::run)),
    Command::new(&["plan"], PLANNING, &args::plan::TABLE, |v| task(PlanArgs::read(&v), plan::run)),
    Command::new(&["whatif"], PLANNING, &args::what_if::TABLE, |v| task(WhatIfArgs::parse(&v), what_if::run)),
    Command::new(&["compare"], RESULTS, &args::compare::TABLE, |v| task(CompareArgs::read(&v), compare::run)),
    Command::new(&["gate"], RESULTS, &args::gate::TABLE, |v| task(GateArgs::read(&v), gate::run)),
    Command::new(&["explain"], RESULTS, &args::explain::TABLE, |v| task(ExplainArgs::parse(&v), explain::run)),
    Command::new(&["check"], RESULTS, &args::check::TABLE, |v| task(CheckArgs::parse(&v), check::run)),
    Command::new(&["bundle"], RESULTS, &args::bundle::BUNDLE_TABLE, |v| task(BundleArgs::parse(&v), bundle::run)),
    Command::new(&["verify"], RESULTS, &args::bundle::VERIFY_TABLE, |v| task(VerifyArgs::parse(&v), bundle::verify::run)),
    Command::new(&["reproduce"], RESULTS, &args::bundle::REPRODUCE_TABLE, |v| task(ReproduceArgs::read(&v), bundle::reproduce::run)),
    Command::new(&["report"], RESULTS, &args::report::TABLE, |v| task(ReportCommandArgs::read(&v), report::run)),
    Command::new(&["history add"], HISTORY, &args::history::ADD_TABLE, |v| task(AddArgs::parse(&v), history::add)),
    Command::new(&["history list"], HISTORY, &args::history::LIST_TABLE, |v| task(ListArgs::parse(&v), history::list)),
    Command::new(&["history show"], HISTORY, &args::history::SHOW_TABLE, |v| task(ShowArgs::parse(&v), history::show)),
    Command::new(&["history trend"], HISTORY, &args::history::TREND_TABLE, |v| task(TrendArgs::parse(&v), history::trend)),
    Command::new(&["history diff"], HISTORY, &args::history::DIFF_TABLE, |v| task(DiffArgs::parse(&v), history::diff)),
    Command::new(&["history prune"], HISTORY, &args::history::PRUNE_TABLE, |v| task(PruneArgs::read(&v), history::prune)),
    Command::new(&["history site"], HISTORY, &args::history::SITE_TABLE, |v| task(SiteArgs::parse(&v), history::site)),
    Command::new(&["sweep plot", "bench sweep plot"], RESULTS, &args::sweep::plot::TABLE, |v| task(PlotArgs::read(&v), sweep::plot::run)),
    Command::new(&["sweep plot_pareto", "bench sweep plot_pareto"], RESULTS, &args::sweep::plot_pareto::TABLE, |v| task(ParetoArgs::read(&v), sweep::plot_pareto::run)),
    Command::new(&["record"], UTILITIES, &args::record::TABLE, |v| task(RecordArgs::parse(&v), record::run)),
    Command::new(&["convert txt-slices"], UTILITIES, &args::convert::SLICES_TABLE, |v| task(Ok::<_, ArgError>(SlicesArgs::from(&v)), convert::slices)),
    Command::new(&["convert sharegpt"], UTILITIES, &args::convert::SHAREGPT_TABLE, |v| task(SharegptArgs::read(&v), convert::sharegpt)),
    Command::new(&["convert trace"], UTILITIES, &args::convert::TRACE_TABLE, |v| task(Ok::<_, ArgError>(TraceArgs::from(&v)), convert::trace)),
    Command::new(&["backend check"], UTILITIES, &args::backend::CHECK_TABLE, |v| task(BackendCheckArgs::parse(&v), backend::check)),
    Command::new(&["backend init"], UTILITIES, &args::backend::INIT_TABLE, |v| task(args::backend::init(&v), backend::init)),
    Command::new(&["backend list"], UTILITIES, &args::backend::LIST_TABLE, |_| task(Ok::<_, ArgError>(()), backend::list)),
    Command::new(&["init"], UTILITIES, &args::shell::INIT, |v| task(Ok::<_, ArgError>(InitArgs::from(&v)), shell::init)),
    Command::new(&["completions"], UTILITIES, &args::shell::COMPLETIONS, |v| task(Shell::read(&v), shell::completions)),
    Command::new(&["man"], UTILITIES, &args::shell::MAN, |v| task(Ok::<_, ArgError>(ManArgs::from(&v)), shell::manual)),
];

/// Parses the arguments if the words select the command of this table; otherwise `None`.
pub(crate) fn values_for(table: &'static Table, args: &[String]) -> Result<Option<Values>, ArgError> {
    match find(COMMANDS, &understood(args)) {
        Some((command, args)) if std::ptr::eq(command.table, table) => match read(table, args)? {
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
