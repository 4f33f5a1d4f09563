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
        Ok(Invocation::Sim(args)) => exit::report(commands::sim::run(&args)),
        Ok(Invocation::Sweep(args)) => exit::report(commands::sweep::run(&args)),
        Ok(Invocation::SweepStartup(args)) => exit::report(commands::sweep::run_startup(&args)),
        Err(error) => exit::refuse(&error),
    };
    code.into()
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}
