//! From the flags of a dataset to the settings of a workload.

use std::path::PathBuf;

use tacho_core::json::Value;
use tacho_run::WorkloadPlan;
use tacho_workload::{
    BurstGptSpec, BurstReplaySpec, CustomAudioSpec, CustomImageSpec, CustomReplaySpec, CustomSpec, HfSpec, HfTextSpec,
    MooncakeSpec, OpenAiSpec, PrefixRepetitionSpec, RandomMmSpec, RandomRerankSpec, RandomSpec, RangeRatio, Selection,
    ShareGptSpec, SharedPrefixSpec, SonnetSpec, SpecBenchSpec, SpeedBenchSpec, TimedTraceSpec, WorkloadSpec,
};

use crate::args::serve::ServeArgs;
use crate::commands::sim::hub;

/// The workload that the arguments ask for.
pub(super) fn workload(args: &ServeArgs) -> anyhow::Result<WorkloadPlan> {
    if let Some(path) = &args.own.workload {
        return Ok(WorkloadPlan::File { path: PathBuf::from(path), time_scale: args.dataset.time_scale });
    }
    let groups = &args.dataset.shared_prefix;
    let num_prompts = match args.dataset.dataset_name.as_str() {
        "generated-shared-prefix" => groups.groups.saturating_mul(groups.prompts_per_group),
        _ => args.load.num_prompts,
    };
    if let Some(path) = &args.dataset.sonnet.path {
        let spec = Box::new(WorkloadSpec::Sonnet(sonnet(args, path)?));
        return Ok(WorkloadPlan::Sample { spec, num_prompts, align: false, self_timed: false });
    }
    let align = args.dataset.entry().aligns_with_server;
    Ok(WorkloadPlan::Sample { spec: Box::new(spec(args)?), num_prompts, align, self_timed: args.self_timed() })
}

fn spec(args: &ServeArgs) -> anyhow::Result<WorkloadSpec> {
    Ok(match args.dataset.dataset_name.as_str() {
        "random" => WorkloadSpec::Random(random(args)?),
        "random-mm" => WorkloadSpec::RandomMm(random_mm(args)?),
        "random-rerank" => WorkloadSpec::RandomRerank(rerank(args)?),
        "prefix_repetition" => WorkloadSpec::PrefixRepetition(prefix_repetition(args)?),
        "sharegpt" => WorkloadSpec::ShareGpt(sharegpt(args)?),
        "burstgpt" => burstgpt(args),
        "custom" if args.self_timed() => {
            WorkloadSpec::CustomReplay(CustomReplaySpec { custom: custom(args), time_scale: args.dataset.time_scale })
        }
        "custom" => WorkloadSpec::Custom(custom(args)),
        "custom_image" => WorkloadSpec::CustomImage(custom_image(args)),
        "custom_audio" => WorkloadSpec::CustomAudio(custom_audio(args)),
        "spec_bench" => WorkloadSpec::SpecBench(spec_bench(args)),
        "speed_bench" => WorkloadSpec::SpeedBench(speed_bench(args)),
        "timed_trace" => WorkloadSpec::TimedTrace(timed_trace(args)),
        "generated-shared-prefix" => WorkloadSpec::SharedPrefix(shared_prefix(args)),
        "mooncake" => WorkloadSpec::Mooncake(mooncake(args)),
        "openai" => WorkloadSpec::OpenAi(openai(args)),
        _ => match &args.dataset.hf.text_column {
            Some(column) => WorkloadSpec::HfText(HfTextSpec { hf: hf(args), column: column.clone() }),
            None => WorkloadSpec::Hf(hf(args)),
        },
    })
}

fn burstgpt(args: &ServeArgs) -> WorkloadSpec {
    let burst = BurstGptSpec { path: path(args), selection: selection(args) };
    if args.self_timed() {
        WorkloadSpec::BurstReplay(BurstReplaySpec { burst, time_scale: args.dataset.time_scale })
    } else {
        WorkloadSpec::BurstGpt(burst)
    }
}

fn shared_prefix(args: &ServeArgs) -> SharedPrefixSpec {
    let groups = &args.dataset.shared_prefix;
    SharedPrefixSpec {
        seed: args.load.seed,
        groups: groups.groups,
        prompts_per_group: groups.prompts_per_group,
        system_len: groups.system_len,
        question_len: groups.question_len,
        output_len: args.dataset.output_len.unwrap_or(groups.output_len),
        range_ratio: groups.range_ratio,
        zipf: groups.alpha,
        ordered: groups.ordered,
        uncounted: groups.uncounted,
        request_id_prefix: args.content.request_id_prefix.clone(),
    }
}

fn mooncake(args: &ServeArgs) -> MooncakeSpec {
    MooncakeSpec { trace: timed_trace(args), workload: args.dataset.mooncake_workload.clone() }
}

fn openai(args: &ServeArgs) -> OpenAiSpec {
    OpenAiSpec {
        path: path(args),
        selection: selection(args),
        output_len: args.dataset.output_len,
        time_scale: args.self_timed().then_some(args.dataset.time_scale),
    }
}

fn path(args: &ServeArgs) -> PathBuf {
    PathBuf::from(args.dataset.dataset_path.clone().unwrap_or_default())
}

fn selection(args: &ServeArgs) -> Selection {
    Selection {
        seed: args.load.seed,
        num_prompts: args.load.num_prompts,
        shuffle: args.dataset.shuffle,
        oversample: args.dataset.oversample,
        request_id_prefix: args.content.request_id_prefix.clone(),
    }
}

fn template_variables(args: &ServeArgs) -> Option<tacho_core::json::Dict> {
    args.dataset.chat_template_kwargs.as_ref().and_then(Value::as_dict).cloned()
}

fn random(args: &ServeArgs) -> anyhow::Result<RandomSpec> {
    let dataset = &args.dataset;
    Ok(RandomSpec {
        seed: args.load.seed,
        num_prompts: args.load.num_prompts,
        input_len: dataset.input_len(),
        output_len: dataset.output_len(),
        prefix_len: dataset.random_prefix_len,
        range_ratio: RangeRatio::parse(&dataset.random_range_ratio)?,
        batch_size: dataset.random_batch_size,
        request_id_prefix: args.content.request_id_prefix.clone(),
    })
}

fn random_mm(args: &ServeArgs) -> anyhow::Result<RandomMmSpec> {
    let (dataset, mm) = (&args.dataset, &args.dataset.mm);
    let limits = mm.limits.as_dict().into_iter().flat_map(|dict| dict.iter());
    Ok(RandomMmSpec {
        seed: args.load.seed,
        num_prompts: args.load.num_prompts,
        input_len: dataset.input_len(),
        output_len: dataset.output_len(),
        prefix_len: dataset.random_prefix_len,
        range_ratio: RangeRatio::parse(&dataset.random_range_ratio)?,
        base_items: mm.base_items,
        items_range_ratio: mm.items_range_ratio,
        limits: limits.map(|(name, limit)| (name.to_owned(), limit.as_i64().unwrap_or(0))).collect(),
        buckets: mm.buckets.clone(),
        multimodal_chat: dataset.multimodal_chat,
        request_id_prefix: args.content.request_id_prefix.clone(),
    })
}

fn rerank(args: &ServeArgs) -> anyhow::Result<RandomRerankSpec> {
    let dataset = &args.dataset;
    Ok(RandomRerankSpec {
        seed: args.load.seed,
        num_prompts: args.load.num_prompts,
        input_len: dataset.input_len(),
        range_ratio: RangeRatio::parse(&dataset.random_range_ratio)?,
        batch_size: dataset.random_batch_size,
        is_reranker: dataset.is_reranker,
        request_id_prefix: args.content.request_id_prefix.clone(),
    })
}

fn prefix_repetition(args: &ServeArgs) -> anyhow::Result<PrefixRepetitionSpec> {
    let (dataset, prefix) = (&args.dataset, &args.dataset.prefix);
    Ok(PrefixRepetitionSpec {
        seed: args.load.seed,
        num_prompts: args.load.num_prompts,
        prefix_len: prefix.prefix_len,
        suffix_len: prefix.suffix_len,
        num_prefixes: prefix.num_prefixes,
        output_len: dataset.output_len.unwrap_or(prefix.output_len),
        shuffle: dataset.shuffle,
    })
}

fn sharegpt(args: &ServeArgs) -> anyhow::Result<ShareGptSpec> {
    let dataset = &args.dataset;
    Ok(ShareGptSpec {
        path: path(args),
        selection: selection(args),
        output_len: dataset.output_len.or(dataset.sharegpt_output_len),
        multimodal_chat: dataset.multimodal_chat,
    })
}

fn custom(args: &ServeArgs) -> CustomSpec {
    CustomSpec {
        path: path(args),
        selection: selection(args),
        output_len: Some(args.dataset.output_len.unwrap_or(args.dataset.custom_output_len)),
        chat_template: args.dataset.chat_template,
        template_variables: template_variables(args),
    }
}

fn custom_image(args: &ServeArgs) -> CustomImageSpec {
    CustomImageSpec {
        path: path(args),
        selection: selection(args),
        output_len: args.dataset.output_len.unwrap_or(args.dataset.custom_output_len),
        multimodal_chat: args.dataset.multimodal_chat,
        client_side_data: args.dataset.client_side_data,
    }
}

fn custom_audio(args: &ServeArgs) -> CustomAudioSpec {
    CustomAudioSpec {
        path: path(args),
        selection: selection(args),
        output_len: Some(args.dataset.output_len.unwrap_or(args.dataset.custom_output_len)),
        multimodal_chat: args.dataset.multimodal_chat,
    }
}

fn spec_bench(args: &ServeArgs) -> SpecBenchSpec {
    let dataset = &args.dataset;
    SpecBenchSpec {
        path: path(args),
        selection: selection(args),
        output_len: dataset.output_len.unwrap_or(dataset.spec_bench_output_len),
        category: dataset.spec_bench_category.clone(),
    }
}

fn speed_bench(args: &ServeArgs) -> SpeedBenchSpec {
    let dataset = &args.dataset;
    SpeedBenchSpec {
        folder: path(args),
        subset: dataset.speed_bench_subset.clone(),
        selection: selection(args),
        output_len: dataset.speed_bench_output_len,
        category: dataset.speed_bench_category.clone(),
        chat_template: dataset.chat_template,
        template_variables: template_variables(args),
    }
}

fn timed_trace(args: &ServeArgs) -> TimedTraceSpec {
    let trace = &args.dataset.trace;
    TimedTraceSpec {
        path: path(args),
        selection: selection(args),
        chunk_size: trace.chunk_hash_size,
        sec_multiplier: trace.sec_multiplier * args.dataset.time_scale,
        timestamp_label: trace.timestamp.clone(),
        input_length_label: trace.input_length.clone(),
        output_length_label: trace.output_length.clone(),
        hash_ids_label: trace.hash_ids.clone(),
        // Unset or `random` gives other tokens in every process of Python; here they are always those of 0.
        hash_seed: std::env::var("PYTHONHASHSEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0),
    }
}

fn hf(args: &ServeArgs) -> HfSpec {
    let (dataset, hf) = (&args.dataset, &args.dataset.hf);
    HfSpec {
        path: dataset.dataset_path.clone().unwrap_or_default(),
        name: hf.name.clone(),
        subset: hf.subset.clone(),
        split: hf.split.clone(),
        output_len: dataset.output_len.or(hf.output_len),
        selection: selection(args),
        stream: dataset.stream,
        stream_order: hf.order,
        chat_template: dataset.chat_template,
        multimodal_chat: dataset.multimodal_chat,
        backend: args.target.backend.name().to_owned(),
        blazedit_distance: hf.blazedit_distance,
        audio_seconds: hf.audio_seconds,
        bfcl_categories: hf.bfcl_categories.clone(),
        cache: hub().cache,
    }
}

fn sonnet(args: &ServeArgs, path: &str) -> anyhow::Result<SonnetSpec> {
    let sonnet = &args.dataset.sonnet;
    Ok(SonnetSpec {
        path: PathBuf::from(path),
        num_prompts: args.load.num_prompts,
        input_len: args.dataset.input_len.unwrap_or(sonnet.input_len),
        output_len: args.dataset.output_len.unwrap_or(sonnet.output_len),
        prefix_len: sonnet.prefix_len,
        plain: args.target.backend.name() == "openai-chat",
        request_id_prefix: args.content.request_id_prefix.clone(),
    })
}
