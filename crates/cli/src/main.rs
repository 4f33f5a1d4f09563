//! The `tacho` command: parse, plan, run, report, code.

mod args;
mod commands;
mod exit;
mod interrupt;
mod logging;

use std::process::ExitCode;

use args::Invocation;
use exit::Exit;

fn main() -> ExitCode {
    if let Some(command) = commands::supervise::asked(std::env::args_os()) {
        return commands::supervise::run(&command);
    }
    logging::init();
    let code = match args::parse(std::env::args_os().skip(1)) {
        Ok(Invocation::Print(text)) => exit::print(&text),
        Ok(Invocation::Serve(args)) => exit::report(commands::serve::run(&args)),
        Ok(Invocation::Throughput(args)) => exit::report(commands::throughput::run(&args)),
        Ok(Invocation::Latency(args)) => exit::report(commands::latency::run(&args)),
        Ok(Invocation::Startup(args)) => exit::report(commands::startup::run(&args)),
        Ok(Invocation::MmProcessor(args)) => exit::report(commands::mm_processor::run(&args)),
        Ok(Invocation::Selfcheck(args)) => exit::report(commands::selfcheck::run(&args)),
        Ok(Invocation::Sim(args)) => exit::report(commands::sim::run(&args)),
        Ok(Invocation::AutoTune(args)) => exit::report(commands::auto_tune::run(&args)),
        Ok(Invocation::Suite(args)) => exit::report(commands::suite::run(&args)),
        Ok(Invocation::Compare(args)) => exit::report(commands::compare::run(&args)),
        Ok(Invocation::Gate(args)) => exit::report(commands::gate::run(&args)),
        Ok(Invocation::Report(args)) => exit::report(commands::report::run(&args)),
        Ok(Invocation::SweepPlot(args)) => exit::report(commands::sweep::plot::run(&args)),
        Ok(Invocation::SweepPareto(args)) => exit::report(commands::sweep::plot_pareto::run(&args)),
        Ok(Invocation::Sweep(args)) => exit::report(commands::sweep::run(&args)),
        Ok(Invocation::SweepStartup(args)) => exit::report(commands::sweep::run_startup(&args)),
        Ok(Invocation::Convert(args)) => exit::report(commands::convert::run(&args)),
        Err(error) => exit::refuse(&error),
    };
    code.into()
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}
