//! Request bodies: their fields, the rules for them, and prompts.

pub(super) mod ask;
pub(super) mod fields;
pub(super) mod form;
pub(super) mod format;
pub(super) mod problem;
pub(super) mod prompt;
pub(super) mod rules;
pub(super) mod tables;
pub(super) mod tools;
pub(super) mod types;

pub(super) use ask::{Ask, Endpoint};
pub(super) use fields::Fields;
pub(super) use problem::{Failure, ON_PURPOSE, Outcome, Problem};
pub(super) use prompt::{Prompt, Source};
