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
    logging::init();
    let code = match args::parse(std::env::args_os().skip(1)) {
        Ok(Invocation::Print(text)) => exit::print(&text),
        Ok(Invocation::Serve(args)) => exit::report(commands::serve::run(&args)),
        Ok(Invocation::Sim(args)) => exit::report(commands::sim::run(&args)),
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
