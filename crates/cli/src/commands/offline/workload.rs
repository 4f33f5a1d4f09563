//! From dataset flags to the settings of a workload, as vLLM's throughput command maps them.

use anyhow::bail;
use tacho_run::throughput::OfflineWorkload;
use tacho_workload::{PrefixRepetitionSpec, RandomSpec, RangeRatio, WorkloadSpec};

use crate::args::offline::mm_processor::MmProcessorArgs;
use crate::args::offline::throughput::ThroughputArgs;

/// The workload of `tacho throughput`; warm-up requests are made under the next seed.
pub(crate) fn throughput(args: &ThroughputArgs) -> anyhow::Result<OfflineWorkload> {
    let warmups = usize::try_from(args.num_warmups)?;
    if let Some(path) = &args.workload {
        return Ok(OfflineWorkload::File { path: path.into(), warmups });
    }
    let boxed = |seed, num_prompts| spec(args, seed, num_prompts).map(Box::new);
    let measured = boxed(args.engine.seed, args.num_prompts)?;
    let warmup = (warmups > 0).then(|| boxed(args.engine.seed + 1, args.num_warmups)).transpose()?;
    Ok(OfflineWorkload::Sample { measured, warmup })
}

fn spec(args: &ThroughputArgs, seed: i64, num_prompts: i64) -> anyhow::Result<WorkloadSpec> {
    let [prefix_len, suffix_len, num_prefixes, output_len] = args.prefix_repetition.map(Option::unwrap_or_default);
    Ok(match args.effective_dataset() {
        "random" => WorkloadSpec::Random(RandomSpec {
            seed,
            num_prompts,
            input_len: args.random_len("--random-input-len", "--input-len"),
            output_len: args.random_len("--random-output-len", "--output-len"),
            prefix_len: args.random_len("--random-prefix-len", "--prefix-len"),
            range_ratio: RangeRatio::parse(&args.values.text("--random-range-ratio"))?,
            batch_size: 1,
            request_id_prefix: String::new(),
        }),
        "prefix_repetition" => WorkloadSpec::PrefixRepetition(PrefixRepetitionSpec {
            seed,
            num_prompts,
            prefix_len,
            suffix_len,
            num_prefixes,
            output_len,
            shuffle: true,
        }),
        name => {
            bail!("--dataset-name {name} cannot be sampled here: save it with tacho serve and give --workload FILE")
        }
    })
}

/// The workload of `tacho mm-processor`.
pub(crate) fn multimodal(args: &MmProcessorArgs) -> anyhow::Result<OfflineWorkload> {
    match &args.workload {
        Some(path) => Ok(OfflineWorkload::File { path: path.into(), warmups: usize::try_from(args.num_warmups)? }),
        None => bail!(
            "--dataset-name {} cannot be sampled here: save it with tacho serve and give --workload FILE",
            args.dataset_name
        ),
    }
}
