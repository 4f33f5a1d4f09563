//! Workloads of `tacho throughput` and `tacho mm-processor`; warm-up requests use the next seed.

use tacho_run::offline::OfflineWorkload;
use tacho_workload::{Carrier, LengthPlan, Need, WorkloadSpec};

use crate::args::offline::mm_processor::MmProcessorArgs;
use crate::args::offline::throughput::ThroughputArgs;
use crate::args::offline::{Backend, OfflineArgs};
use crate::args::serve::DatasetFlags;
use crate::commands::dataset::{Source, hash_seed};
use crate::commands::sim::hub;

pub(crate) fn throughput(args: &ThroughputArgs) -> anyhow::Result<OfflineWorkload> {
    let spec = |seed, count| throughput_source(args, seed, count).spec(args.effective_dataset());
    offline(&args.common, (args.num_prompts, args.num_warmups), &spec)
}

pub(crate) fn multimodal(args: &MmProcessorArgs) -> anyhow::Result<OfflineWorkload> {
    let spec = |seed, count| multimodal_source(args, seed, count).spec(&args.dataset_name);
    offline(&args.common, (args.num_prompts, args.num_warmups), &spec)
}

fn offline(
    common: &OfflineArgs,
    (prompts, warmups): (i64, i64),
    spec: &dyn Fn(i64, i64) -> anyhow::Result<WorkloadSpec>,
) -> anyhow::Result<OfflineWorkload> {
    if let Some(path) = &common.source.workload {
        return Ok(OfflineWorkload::File { path: path.into(), warmups: usize::try_from(warmups)? });
    }
    let seed = common.engine.seed;
    let warmup = (warmups > 0).then(|| spec(seed + 1, warmups).map(Box::new)).transpose()?;
    Ok(OfflineWorkload::Sample { measured: Box::new(spec(seed, prompts)?), warmup })
}

pub(crate) fn throughput_source(args: &ThroughputArgs, seed: i64, num_prompts: i64) -> Source<'_> {
    let flags = &args.common.datasets;
    Source {
        lengths: args.random_lengths(),
        given: args.given_lengths(),
        multimodal_chat: flags.enable_multimodal_chat || args.backend() == Backend::VllmChat,
        carrier: carrier(args.backend()),
        ..source(flags, &args.dataset_path, seed, num_prompts)
    }
}

/// Dataset inputs of `tacho mm-processor`; its prompts are always chat messages.
fn multimodal_source(args: &MmProcessorArgs, seed: i64, num_prompts: i64) -> Source<'_> {
    source(&args.common.datasets, &args.dataset_path, seed, num_prompts)
}

/// Dataset inputs of chat messages.
fn source<'a>(flags: &'a DatasetFlags, path: &Option<String>, seed: i64, num_prompts: i64) -> Source<'a> {
    Source {
        flags,
        path: path.clone().unwrap_or_default(),
        seed,
        num_prompts,
        length_plan: LengthPlan::default(),
        request_id_prefix: String::new(),
        lengths: [flags.random_input_len, flags.random_output_len, flags.random_prefix_len].map(|len| len.value),
        given: [None, flags.output_len, None],
        batch_size: 1,
        output_len: None,
        multimodal_chat: true,
        carrier: carrier(Backend::VllmChat),
        self_timed: false,
        cache: hub().cache,
        hash_seed: hash_seed(),
    }
}

/// Request features that a backend supports. Tool schemas require the request body of a server.
fn carrier(backend: Backend) -> Carrier {
    let carries: &[Need] = match backend {
        Backend::Hf | Backend::Mii | Backend::OpenAi => &[],
        Backend::OpenAiChat => &[Need::Chat, Need::Media, Need::Tools],
        Backend::VllmChat => &[Need::Chat, Need::Media],
        Backend::Vllm | Backend::VllmAsync | Backend::Sim => &[Need::Media],
    };
    Carrier { name: backend.label(), carries }
}
