//! The command line against what `vllm bench` 0.32.0 has and says.

mod cases;
mod file;
mod offline;
mod parity;
mod plots;
mod refusals;
mod texts;

use super::command::{Invocation, parse};
use super::error::ArgError;
use super::serve::ServeArgs;
use super::sim::SimArgs;

fn parse_words(words: &[&str]) -> Result<Invocation, ArgError> {
    parse(words.iter().map(|&word| word.into()))
}

fn serve(words: &[&str]) -> Result<ServeArgs, ArgError> {
    match parse_words(&[&["serve"], words].concat())? {
        Invocation::Serve(args) => Ok(*args),
        other => panic!("not a run: {other:?}"),
    }
}

fn sim(words: &[&str]) -> Result<SimArgs, ArgError> {
    match parse_words(&[&["sim"], words].concat())? {
        Invocation::Sim(args) => Ok(*args),
        other => panic!("not a simulator: {other:?}"),
    }
}

fn printed(words: &[&str]) -> String {
    match parse_words(words).unwrap() {
        Invocation::Print(text) => text,
        other => panic!("not a text: {other:?}"),
    }
}

fn message(words: &[&str]) -> String {
    serve(words).unwrap_err().to_string()
}

/// The argv of a golden case, with a port put in.
fn golden_argv(case: &serde_json::Value) -> Vec<String> {
    let argv = case["argv"].as_array().unwrap();
    argv.iter().map(|word| word.as_str().unwrap().replace("{port}", "18611")).collect()
}
