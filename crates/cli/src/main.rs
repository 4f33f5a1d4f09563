//! The `tacho` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    tacho_cli::main()
}
