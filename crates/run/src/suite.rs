//! `tacho suite`: the test files of vLLM's performance suite. Each serving test is a server under several loads, each
//! other test one command; every case produces a result and the commands that led to it.

mod adaptive;
mod command;
mod file;
mod runner;
mod serving;

pub use adaptive::AdaptiveSpec;
pub use file::{Test, TestKind, parse_tests};
pub use runner::{Hardware, PromptRule, Remote, ServerKind, SuitePlan, suite};
