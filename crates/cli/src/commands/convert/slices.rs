//! `tacho convert txt-slices`: converts plain text to prompts for the `custom` dataset.

use anyhow::{Context, bail};
use tacho_text::TokenizerMode;
use tacho_workload::{RangeRatio, SlicesSpec, slices};

use crate::args::convert::slices::SlicesArgs;
use crate::commands::sim::load;
use crate::exit::{Exit, saved};

pub(crate) fn run(args: &SlicesArgs) -> anyhow::Result<Exit> {
    if args.input.starts_with("http://") || args.input.starts_with("https://") {
        bail!("--input {}: only files can be read; download it first", args.input);
    }
    let spec = SlicesSpec {
        seed: args.seed,
        num_prompts: args.num_prompts,
        input_len: args.input_len,
        output_len: args.output_len,
        range_ratio: RangeRatio::parse(&args.range_ratio)?,
    };
    let tokenizer = load(&args.tokenizer, None, TokenizerMode::Auto)?;
    let text = std::fs::read_to_string(&args.input).with_context(|| format!("cannot read {}", args.input))?;
    // Universal newlines, as in Python's text mode.
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let lines = slices(&spec, &text, &tokenizer)?;
    std::fs::write(&args.output, &lines).with_context(|| format!("cannot write {}", args.output))?;
    saved(&args.output);
    Ok(Exit::Done)
}
