//! The `tacho` command: parse, plan, run, report, exit code. It is a library so that it compiles in parallel with its
//! dependencies; a binary would wait for all of them.

mod args;
mod code;
mod commands;
mod exit;
mod git;
mod interrupt;
mod limits;
mod logging;
mod secrets;
mod terminal;

use std::process::ExitCode;

use args::program::{Invocation, parse};
use commands::COMMANDS;
use exit::Exit;
use tacho_args::variables;
use tacho_core::sandbox::{self, Sandbox};

const STACK: usize = 8 << 20;

/// Argument of the helper process that renders templates. It is internal, not a command.
const RENDER: &str = "__render";

/// Suffixes of `TACHO_` variables that are not flags. Cargo sets that of the commit in what it runs.
const READ_ELSEWHERE: [&str; 3] = ["COMMIT", "RENDEZVOUS_TOKEN", "RENDEZVOUS_TOKEN_FILE"];

pub fn main() -> ExitCode {
    limits::share_one_arena();
    // The main thread's stack has the size of `ulimit -s`, which may be too small.
    match std::thread::Builder::new().name("main".into()).stack_size(STACK).spawn(program) {
        Ok(thread) => thread.join().unwrap_or(ExitCode::FAILURE),
        Err(_) => program(),
    }
}

fn program() -> ExitCode {
    if let Some(command) = commands::supervise::supervised_command(std::env::args_os()) {
        return commands::supervise::run(&command);
    }
    if std::env::args_os().nth(1).is_some_and(|argument| argument == RENDER) {
        let served = sandbox::serve(&[tacho_text::TEMPLATES, tacho_client::BODIES]);
        return served.map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS);
    }
    Sandbox::enable(&[RENDER]);
    secrets::protect();
    logging::init();
    interrupt::outlive_limits();
    // Detect the terminal now: a closed terminal can no longer be identified as one.
    let _ = tacho_report::out();
    for mistake in variables::mistaken(COMMANDS.iter().map(|command| command.table), &READ_ELSEWHERE) {
        exit::note(&mistake);
    }
    let code = match parse(COMMANDS, std::env::args_os().skip(1)) {
        Ok(Invocation::Print(text)) => exit::print(&text),
        Ok(Invocation::Run(task)) => exit::report(exit::unwound(task)),
        Err(error) => exit::refuse(COMMANDS, &error),
    };
    code.into()
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}
