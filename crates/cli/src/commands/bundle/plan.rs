//! The plan of a bundled run: its saved requests, or the flags and the seed that make them. A bundle comes from others:
//! of its flags only those are used that make synthetic requests, so that nothing in it names a file or a command.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

use anyhow::{anyhow, bail};
use tacho_args::{Values, flag::Flag};
use tacho_core::json::{Json, Value, dumps};
use tacho_core::{Request, secret::REDACTED};
use tacho_decide::verify::{Plan, Planned};
use tacho_record::Provenance;
use tacho_run::serve::{Contact, Prepared, prepare, workload_digest};
use tacho_run::{ServePlan, TokenizerPlan, WorkloadPlan, experiment::split};
use tacho_workload::{Rows, hub::Hub, read_settings};

use super::opened::offline_hub;
use crate::args::serve::{ServeArgs, TABLE};
use crate::args::shared::tags::{
    PER_CLASS, PER_STAGE, SAVED, SAVED_DEFAULT, SETS_LENGTH, SETS_LEVEL, SETS_LOAD, SHAPES_LOAD,
};
use crate::{commands::serve::plan, commands::values_for};

/// Flags of these properties make requests and their times.
const MAKES_REQUESTS: u32 =
    SAVED | SAVED_DEFAULT | SETS_LOAD | SETS_LEVEL | SETS_LENGTH | SHAPES_LOAD | PER_STAGE | PER_CLASS;
/// Others that do.
const FURTHER: [&str; 9] = [
    "--dataset-name",
    "--class",
    "--tokenizer",
    "--tokenizer-mode",
    "--skip-tokenizer-init",
    "--disable-shuffle",
    "--sim",
    "--request-id-prefix",
    "--lora-assignment",
];
/// Those that name files, commands or headers.
const LEFT_OUT: [&str; 6] = ["--workload", "--sessions", "--dataset-path", "--dataset-command", "--map", "--header"];

/// The values of a recorded command line.
pub(super) fn recorded(command: &str) -> anyhow::Result<Values> {
    let args = split("the command of the run", command)?;
    let args: Vec<String> = args.into_iter().skip(1).collect();
    values_for(&TABLE, &args)?.ok_or_else(|| anyhow!("it is not a command of tacho serve"))
}

/// The flags and the seed of a run with a synthetic dataset.
pub(super) struct Recipe {
    pub(super) args: ServeArgs,
    /// Whether the run was one of the built-in simulator, which has the built-in tokenizer.
    builtin: bool,
}

impl Recipe {
    /// Fails if its requests come from elsewhere.
    pub(super) fn of(provenance: &Provenance, model: &str) -> anyhow::Result<Self> {
        let command = provenance.command.as_deref().ok_or_else(|| anyhow!("the command of the run is not known"))?;
        let all = recorded(command)?;
        if ["--workload", "--sessions", "--dataset-path"].iter().any(|flag| all.is_set(flag)) {
            bail!("its requests come from a file");
        }
        let mut values = Values::defaults(&TABLE);
        let used = |flag: &&Flag| flag.has(MAKES_REQUESTS) || FURTHER.contains(&flag.names[0]);
        for flag in all.set_flags().filter(used).map(|flag| flag.names[0]).filter(|flag| !LEFT_OUT.contains(flag)) {
            if dumps(all.get(flag)).contains(REDACTED) {
                bail!("{flag} has a secret, which results do not keep");
            }
            values.put(flag, all.get(flag).clone());
        }
        if let Some(seed) = provenance.seed {
            values.put("--seed", Value::Int(seed));
        }
        if !values.is_set("--model") {
            values.put("--model", Value::from(model));
        }
        let args = ServeArgs::read(values)?;
        if !is_synthetic(&args) {
            bail!("its requests are not made from flags and a seed alone");
        }
        let builtin = all.is_set("--sim") && !all.is_set("--tokenizer");
        Ok(Recipe { args, builtin })
    }
}

fn is_synthetic(args: &ServeArgs) -> bool {
    let made = |args: &ServeArgs| args.dataset.kind.rows == Rows::Generated && args.dataset.path.is_none();
    let parts = args.classes.iter().chain(&args.stages.datasets);
    let salted = args.tacho.cache_salt.as_deref() == Some("random");
    made(args) && parts.map(|part| &part.args).all(made) && !salted && !args.values.is_set("--multi-turn")
}

/// Where the plan of a run comes from.
pub(super) enum Source {
    /// A saved workload, and whether the run was one of the built-in simulator.
    Saved(Box<ServeArgs>, bool),
    Recipe(Box<Recipe>),
}

impl Source {
    /// The saved workload in a file.
    pub(super) fn saved(path: &Path, connection: Option<&Values>, builtin: bool) -> anyhow::Result<Self> {
        let mut values = connection.cloned().unwrap_or_else(|| Values::defaults(&TABLE));
        // Secret headers are no part of the plan, and are needed only to send it.
        let hidden = if connection.is_none() { headers_of(path)?.0 } else { Vec::new() };
        if !hidden.is_empty() {
            values.put("--header", hidden.to_json());
        }
        values.put("--workload", Value::from(path.to_string_lossy().into_owned()));
        Ok(Source::Saved(Box::new(ServeArgs::read(values)?), builtin))
    }

    /// The same requests for the server of `connection`.
    pub(super) fn at(self, connection: &Values) -> anyhow::Result<Self> {
        let Source::Recipe(recipe) = self else { return Ok(self) };
        let mut values = recipe.args.values.clone();
        values.forget("--sim");
        values.take_over(connection);
        Ok(Source::Recipe(Box::new(Recipe { args: ServeArgs::read(values)?, ..*recipe })))
    }

    pub(super) fn args(&self) -> &ServeArgs {
        match self {
            Source::Saved(args, _) => args,
            Source::Recipe(recipe) => &recipe.args,
        }
    }

    pub(super) fn plan(&self, hub: &Hub) -> anyhow::Result<ServePlan> {
        let mut plan = ServePlan { hub: hub.clone(), ..plan::of(self.args(), None)? };
        match self {
            // The requests are made: tokens need no counting.
            Source::Saved(_, false) => plan.tokenizer = TokenizerPlan::Skipped,
            Source::Saved(_, true) => plan.tokenizer = TokenizerPlan::Builtin,
            Source::Recipe(recipe) if recipe.builtin => plan.tokenizer = TokenizerPlan::Builtin,
            Source::Recipe(_) => {}
        }
        Ok(plan)
    }
}

/// The headers of a saved workload: those whose values are not stored, and the others.
pub(super) fn headers_of(path: &Path) -> anyhow::Result<(Vec<String>, Vec<String>)> {
    let settings = read_settings(path)?.unwrap_or_default();
    let of_classes = settings.get("class_headers").and_then(Value::as_dict).into_iter().flat_map(|all| all.iter());
    let lists = settings.get("headers").into_iter().chain(of_classes.map(|(_, list)| list));
    let texts = lists.filter_map(Value::as_list).flatten().filter_map(Value::as_str);
    Ok(texts.map(str::to_owned).partition(|text| text.ends_with(&format!("={REDACTED}"))))
}

/// The digest of the requests in a file.
pub(super) fn digest_of(path: &Path) -> anyhow::Result<String> {
    let plan = Source::saved(path, None, false)?.plan(&offline_hub())?;
    Ok(workload_digest(&plan, &prepare(&plan, Contact::Minimal, &())?)?)
}

/// A plan that was computed again.
pub(super) struct Recomputed {
    pub(super) plan: Plan,
    pub(super) digest: String,
    /// Whether the run also aligned prompts with the server's tokenizer, which the digest depends on.
    pub(super) aligned: bool,
}

impl Recomputed {
    pub(super) fn of(source: &Source) -> anyhow::Result<Self> {
        let plan = source.plan(&offline_hub())?;
        let prepared = prepare(&plan, Contact::Minimal, &())?;
        let aligned = matches!(plan.workload, WorkloadPlan::Sample { align: true, .. });
        Ok(Recomputed { plan: planned(&plan, &prepared)?, digest: workload_digest(&plan, &prepared)?, aligned })
    }

    /// Whether requests are due at the same times and ask for as many tokens: what no alignment changes.
    pub(super) fn is_like(&self, other: &Plan) -> bool {
        let same = |(one, other): (&Planned, &Planned)| {
            let due = one.due.zip(other.due).is_none_or(|(one, other)| (one - other).abs() < 1e-6);
            due && one.output_len == other.output_len
        };
        self.plan.requests.len() == other.requests.len() && self.plan.requests.iter().zip(&other.requests).all(same)
    }
}

fn planned(plan: &ServePlan, prepared: &Prepared) -> anyhow::Result<Plan> {
    let due = if prepared.sessions.is_some() { &[] } else { prepared.timeline.scheduled() };
    let mut requests = Vec::new();
    prepared.requests.each(|index, request| {
        requests.push(Planned {
            due: due.get(index).copied(),
            prompt_len: request.prompt_len,
            output_len: request.output_len,
            content: content(request),
        });
        Ok::<_, tacho_workload::Error>(())
    })?;
    let stops = &plan.traffic.stops;
    Ok(Plan { requests, endless: stops.endless, duration: stops.duration.map(|time| time.as_secs_f64()) })
}

/// Equal for requests that ask the same.
fn content(request: &Request) -> u64 {
    let mut hasher = DefaultHasher::new();
    dumps(&request.content.to_json()).hash(&mut hasher);
    for part in [&request.media, &request.chat_messages, &request.overrides] {
        part.as_ref().map(dumps).hash(&mut hasher);
    }
    (&request.lora, request.output_len).hash(&mut hasher);
    hasher.finish()
}
