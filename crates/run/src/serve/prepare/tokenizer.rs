//! The tokenizer of a run.

use tacho_client::control::{Caller, models};
use tacho_core::EventSink;
use tacho_text::Tokenizer;
use tacho_workload::hub::Hub;

use crate::Error;
use crate::plan::{ServePlan, TokenizerPlan};

/// The tokenizer's name when it is the built-in one.
pub(crate) const BUILTIN: &str = "gpt2";

/// The tokenizer that a plan names, and its name.
pub(crate) fn load_tokenizer(
    plan: &TokenizerPlan,
    model_id: &str,
    hub: &Hub,
    sink: &dyn EventSink,
) -> Result<(Option<Tokenizer>, Option<String>), Error> {
    match plan {
        TokenizerPlan::Skipped => Ok((None, None)),
        TokenizerPlan::Builtin => Ok((Some(Tokenizer::builtin()), Some(BUILTIN.to_owned()))),
        TokenizerPlan::Named(named) => {
            let name = named.name.as_deref().unwrap_or(model_id);
            if hub.is_builtin(name) {
                return Ok((Some(Tokenizer::builtin().named(name)), Some(name.to_owned())));
            }
            let directory = hub.tokenizer(name, named.revision.as_deref(), sink)?;
            let tokenizer = Tokenizer::load_as(&directory, named.mode)?.named(name);
            Ok((Some(tokenizer), Some(name.to_owned())))
        }
    }
}

/// Explains why the Hub has no tokenizer: often the model's name is wrong, and the server knows the right one.
pub(super) fn explain(error: Error, plan: &ServePlan, caller: &Caller, asked: &str) -> Error {
    let Error::Hub(source) = error else { return error };
    if matches!(&plan.tokenizer, TokenizerPlan::Named(named) if named.name.is_some()) {
        return Error::Hub(source);
    }
    let served = models(caller).unwrap_or_default();
    match served.first() {
        Some(first) if served.iter().all(|model| model.name != asked) => {
            Error::OtherModel { served: first.name.clone(), asked: asked.to_owned(), source }
        }
        _ => Error::NoTokenizer { model: asked.to_owned(), source },
    }
}
