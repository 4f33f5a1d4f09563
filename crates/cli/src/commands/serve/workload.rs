//! The workload of `tacho serve`.

use std::path::PathBuf;

use tacho_core::json::{Dict, Value};
use tacho_run::WorkloadPlan;
use tacho_workload::{ClassSpec, LengthPlan, MixOrder, MixSpec, WorkloadSpec};

use super::sessions;
use crate::args::serve::{ClassArgs, ServeArgs};
use crate::commands::dataset::{Source, hash_seed};
use crate::commands::sim::hub;

pub(super) fn workload(args: &ServeArgs) -> anyhow::Result<WorkloadPlan> {
    if let Some(plan) = sessions::plan(args)? {
        return Ok(WorkloadPlan::Sessions(Box::new(plan)));
    }
    let given = &args.dataset;
    if let Some(path) = &args.tacho.workload {
        return Ok(WorkloadPlan::File { path: PathBuf::from(path), time_scale: given.flags.time_scale() });
    }
    if let Some(merged) = args.merged()? {
        let counts = args.arrivals().iter().map(|process| process.1).collect();
        return mix(args, &args.classes, counts, MixOrder::Arrivals(merged.sources().to_vec()));
    }
    if !args.classes.is_empty() {
        let (seed, count) = (u32::try_from(args.load.seed)?, usize::try_from(args.load.num_prompts)?);
        let weights: Vec<f64> = args.classes.iter().map(|class| class.weight.unwrap_or(1.0)).collect();
        return mix(args, &args.classes, MixSpec::counts(seed, &weights, count), MixOrder::Drawn);
    }
    if !args.stages.datasets.is_empty() {
        let counts: Vec<usize> =
            args.stages.datasets.iter().map(|stage| stage.weight.unwrap_or(0.0) as usize).collect();
        return mix(args, &args.stages.datasets, counts.clone(), MixOrder::Stages(counts));
    }
    let groups = || given.flags.gsp_num_groups.saturating_mul(given.flags.gsp_prompts_per_group);
    let num_prompts = if given.kind.name == "generated-shared-prefix" { groups() } else { args.load.num_prompts };
    let mut spec = Source { length_plan: args.length_plan()?, ..source(args) }.spec(given.kind.name)?;
    if let WorkloadSpec::ServeGen(clients) = &mut spec {
        clients.rate = Some(args.load.request_rate).filter(|rate| rate.is_finite());
        clients.duration =
            args.stops.duration.filter(|_| !args.values.is_set("--num-prompts")).map(|time| time.as_secs_f64());
    }
    Ok(WorkloadPlan::Sample {
        spec: Box::new(spec),
        num_prompts,
        align: given.kind.aligns_with_server,
        self_timed: args.self_timed(),
    })
}

fn mix(args: &ServeArgs, classes: &[ClassArgs], counts: Vec<usize>, order: MixOrder) -> anyhow::Result<WorkloadPlan> {
    let align = classes.iter().all(|class| class.args.dataset.kind.aligns_with_server);
    let classes = (0..).zip(classes).zip(counts).map(|((index, one), count)| class(args, one, index, count));
    let classes = classes.collect::<anyhow::Result<_>>()?;
    let num_prompts = usize::try_from(args.load.num_prompts)?;
    let spec = MixSpec { seed: u32::try_from(args.load.seed)?, num_prompts, classes, order };
    Ok(WorkloadPlan::Sample {
        spec: Box::new(WorkloadSpec::Mix(spec)),
        num_prompts: args.load.num_prompts,
        align,
        self_timed: false,
    })
}

/// The class at this place, with this many requests. Its seed follows from the run's, which repeated runs vary.
fn class(run: &ServeArgs, one: &ClassArgs, index: i64, count: usize) -> anyhow::Result<ClassSpec> {
    let ClassArgs { name, weight, args, .. } = one;
    let mut args = args.clone();
    args.load.seed = (run.load.seed + index).rem_euclid(1 << 32);
    args.load.num_prompts = i64::try_from(count)?;
    let mut body = if args.is_textless() { Dict::new() } else { args.content.sampling() };
    if let Some(Value::Dict(extra)) = &args.content.extra_body {
        body.update(extra);
    }
    if args.ignore_eos() != run.ignore_eos() {
        body.set("ignore_eos", args.ignore_eos());
    }
    let adapters = |of: &ServeArgs| (of.target.lora_modules.clone(), of.tacho.lora_weights.clone());
    let own_adapters = adapters(&args) != adapters(run);
    Ok(ClassSpec {
        name: name.clone(),
        weight: weight.unwrap_or(1.0),
        workload: Source { length_plan: args.length_plan()?, ..source(&args) }.spec(args.dataset.kind.name)?,
        model: args.target.model.clone().filter(|model| run.target.model.as_ref() != Some(model)),
        adapters: own_adapters.then(|| args.target.lora_modules.clone()).flatten().unwrap_or_default(),
        adapter_weights: if own_adapters { args.lora_weights()? } else { Vec::new() },
        body,
    })
}

pub(in crate::commands) fn source(args: &ServeArgs) -> Source<'_> {
    let flags = &args.dataset.flags;
    Source {
        flags,
        path: args.dataset.path.clone().unwrap_or_default(),
        seed: args.load.seed,
        num_prompts: args.load.num_prompts,
        length_plan: LengthPlan::default(),
        request_id_prefix: args.content.request_id_prefix.clone(),
        lengths: [args.dataset.input_len(), args.dataset.output_len(), flags.random_prefix_len.value],
        given: [flags.input_len, flags.output_len, None],
        batch_size: flags.random_batch_size,
        output_len: flags.output_len,
        multimodal_chat: flags.enable_multimodal_chat,
        carrier: args.target.carrier(),
        self_timed: args.self_timed(),
        cache: hub().cache,
        hash_seed: hash_seed(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{args::serve::TABLE, commands::values_for};

    #[test]
    fn repeated_runs_with_other_seeds_draw_every_class_anew() {
        let argv = ["serve", "--sim", "--num-prompts", "20", "--class", "a", "--class", "b: --random-input-len 8"];
        let values = values_for(&TABLE, &argv.map(str::to_owned)).unwrap().unwrap();
        let mut args = ServeArgs::read(values).unwrap();
        let seeds = |args: &ServeArgs| match workload(args).unwrap() {
            WorkloadPlan::Sample { spec, .. } => match *spec {
                WorkloadSpec::Mix(mix) => mix.classes.into_iter().map(|class| match class.workload {
                    WorkloadSpec::Random(random) => random.seed,
                    other => panic!("{other:?}"),
                }),
                other => panic!("{other:?}"),
            }
            .collect::<Vec<i64>>(),
            other => panic!("{other:?}"),
        };
        assert_eq!(seeds(&args), [0, 1]);
        args.load.seed = 7;
        assert_eq!(seeds(&args), [7, 8]);
    }
}
