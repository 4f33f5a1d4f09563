//! Compares the command line with that of `vllm bench` 0.32.0.

mod cases;
mod file;
mod offline;
mod parity;
mod plots;
mod refusals;
mod texts;

use tacho_args::{command::find, grammar::Values};

use super::{error::ArgError, program::Invocation, serve::ServeArgs, sim::SimArgs};
use crate::commands::{COMMANDS, values_for};

fn parse(argv: impl IntoIterator<Item = std::ffi::OsString>) -> Result<Invocation, ArgError> {
    crate::args::program::parse(COMMANDS, argv)
}

fn parse_args(args: &[&str]) -> Result<Invocation, ArgError> {
    parse(args.iter().map(|&word| word.into()))
}

/// The values of the command selected by the first words.
fn values(args: &[impl ToString]) -> Result<Values, ArgError> {
    let args: Vec<String> = args.iter().map(ToString::to_string).collect();
    let (command, _) = find(COMMANDS, &args).expect("a command");
    values_for(command.table, &args).map(|values| values.expect("no help"))
}

fn serve(args: &[&str]) -> Result<ServeArgs, ArgError> {
    ServeArgs::read(values(&[&["serve"], args].concat())?)
}

fn sim(args: &[&str]) -> Result<SimArgs, ArgError> {
    values(&[&["sim"], args].concat()).map(|values| SimArgs::from(&values))
}

fn printed(args: &[&str]) -> String {
    match parse_args(args).unwrap() {
        Invocation::Print(text) => text,
        other => panic!("not a text: {other:?}"),
    }
}

fn message(args: &[&str]) -> String {
    serve(args).unwrap_err().to_string()
}

#[test]
fn every_count_has_an_upper_bound() {
    use tacho_args::flag::{Bounds, Kind, Origin};
    let unbounded = |flag: &&tacho_args::flag::Flag| {
        let max = match flag.bounds {
            Some(Bounds::Between(_, max) | Bounds::Above(_, max) | Bounds::AtMost(max)) => max,
            None => f64::INFINITY,
        };
        // Seeds only start generators; the server checks a top-k, and the engine its own flags.
        let others = flag.origin == Origin::Engine || ["SEED", "K"].contains(&flag.metavar);
        flag.kind == Kind::Int && max > 1e10 && !others
    };
    let flags = COMMANDS.iter().flat_map(|command| command.table.flags);
    let names: Vec<&str> = flags.filter(unbounded).map(|flag| flag.long()).collect();
    assert_eq!(names, [""; 0]);
}

/// The argv of a golden case, with a port filled in.
fn golden_argv(case: &serde_json::Value) -> Vec<String> {
    let argv = case["argv"].as_array().unwrap();
    argv.iter().map(|word| word.as_str().unwrap().replace("{port}", "18611")).collect()
}
