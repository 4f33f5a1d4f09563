//! The embedded simulator as the server under test.

use tacho_sim::{EngineSpec, Server, SimSpec};

use crate::args::serve::ServeArgs;
use crate::commands::sim::{profile, tokenizer};

/// Starts it on a free port when `--sim` asks for it; it ends when the value is dropped.
pub(in crate::commands) fn start(args: &ServeArgs) -> anyhow::Result<Option<Server>> {
    start_with(args, &|_| Ok(()))
}

/// The same with other limits.
pub(in crate::commands) fn start_with(
    args: &ServeArgs,
    limit: &dyn Fn(&mut EngineSpec) -> anyhow::Result<()>,
) -> anyhow::Result<Option<Server>> {
    if !args.own.sim {
        return Ok(None);
    }
    let tokenizer = tokenizer(args.target.tokenizer.as_deref(), args.target.mode())?;
    let mut spec = SimSpec::new(profile(args.own.sim_profile.as_deref())?, tokenizer);
    if let Some(model) = &args.target.model {
        spec.model.clone_from(model);
    }
    spec.served_model_names.extend(args.target.served_model_name.clone());
    spec.lora_modules = args.target.lora_modules.clone().unwrap_or_default();
    limit(&mut spec.engine)?;
    Ok(Some(Server::start(spec)?))
}
