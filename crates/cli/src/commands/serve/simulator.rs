//! The embedded simulator as the server under test.

use tacho_args::{command::read, grammar::Parsed};
use tacho_engine::EngineSpec;
use tacho_run::experiment::{option, split};
use tacho_sim::{Server, SimSpec};

use crate::args::sim::{SimArgs, TABLE};
use crate::commands::sim::{profile, spec as sim_spec, tokenizer};
use crate::{args::ArgError, args::help::suggest, args::serve::ServeArgs, commands::COMMANDS, exit::Misused};

/// Starts the simulator on a free port if `--sim` is set; it stops when the value is dropped.
pub(in crate::commands) fn start(args: &ServeArgs) -> anyhow::Result<Option<Server>> {
    start_with(args, &|_| Ok(()))
}

/// The simulator of `--sim-args`, with the profile and the tokenizer of the run.
fn described(args: &ServeArgs) -> anyhow::Result<SimSpec> {
    let tokenizer = tokenizer(args.target.tokenizer.as_deref(), args.target.mode())?;
    let Some(text) = &args.tacho.sim_args else {
        return Ok(SimSpec::new(profile(args.tacho.sim_profile.as_deref())?, tokenizer));
    };
    let mut argv = split("--sim-args", text)?;
    let elsewhere = ["--host", "--port", "--prefill-url", "--decode-url", "--profile", "--tokenizer", "--model"];
    if let Some(flag) = elsewhere.into_iter().find(|flag| option(&argv, flag).is_some()) {
        return Err(Misused(format!("--sim-args {flag}: leave it out: the run itself says that")).into());
    }
    // Engine limits default to those of the profile.
    argv.extend(args.tacho.sim_profile.iter().flat_map(|profile| ["--profile".to_owned(), profile.clone()]));
    let given = match read(&TABLE, &argv).map_err(|error| misused(&error))? {
        Parsed::Values(values) => SimArgs::from(&values),
        Parsed::Help(_) => return Err(Misused("--sim-args: ask tacho sim itself for its help".to_owned()).into()),
    };
    let spec = sim_spec(&given)?;
    let model = SimSpec::new(spec.machine.clone(), tokenizer.clone()).model;
    Ok(SimSpec { model, tokenizer, port: 0, ..spec })
}

fn misused(error: &ArgError) -> Misused {
    Misused(format!("--sim-args: {error}{}", suggest::advice(COMMANDS, error)))
}

/// Like `start`, with other limits.
pub(in crate::commands) fn start_with(
    args: &ServeArgs,
    limit: &dyn Fn(&mut EngineSpec) -> anyhow::Result<()>,
) -> anyhow::Result<Option<Server>> {
    if !args.tacho.sim {
        return Ok(None);
    }
    let mut spec = described(args)?;
    if let Some(model) = &args.target.model {
        spec.model.clone_from(model);
    }
    spec.served_model_names.extend(args.target.served_model_name.clone());
    spec.lora_modules = args.target.lora_modules.clone().unwrap_or_default();
    limit(&mut spec.engine)?;
    Ok(Some(Server::start(spec)?))
}
