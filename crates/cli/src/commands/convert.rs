//! `tacho convert`: converts datasets and traces.

use std::io::{BufWriter, Write};

use anyhow::{Context, bail};
use tacho_args::near::nearest;
use tacho_report::json::{write_text, write_whole};
use tacho_report::tables::describe::Describe;
use tacho_text::{Tokenizer, TokenizerMode};
use tacho_workload::sessions::{self, Conversation, DumpSpec, Format, Options, conversations_text, convert_dump};
use tacho_workload::{RangeRatio, SlicesSpec};

use crate::args::convert::{SharegptArgs, SlicesArgs, TraceArgs};
use crate::commands::sim::load;
use crate::exit::{Exit, Misused, saved};

pub(crate) fn slices(args: &SlicesArgs) -> anyhow::Result<Exit> {
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
    let lines = tacho_workload::slices(&spec, &text, &tokenizer)?;
    std::fs::write(&args.output, &lines).with_context(|| format!("cannot write {}", args.output))?;
    saved(&args.output);
    Ok(Exit::Done)
}

/// Of the statistics of conversations.
const PERCENTILES: &[f64] = &[25.0, 50.0, 75.0, 90.0, 99.0, 99.9, 99.99];

pub(crate) fn sharegpt(args: &SharegptArgs) -> anyhow::Result<Exit> {
    let tokenizer = args.model.as_deref().map(|model| load(model, None, TokenizerMode::Auto)).transpose()?;
    let (input, output, spec) = (&args.files[0], &args.files[1], args.spec());
    let converted = convert_dump(input, &spec)?;
    let mut text = format!(
        "{}Total items in input file: {}\nShuffling dataset with seed {}\nTotal unique conversations (IDs) in input file: \
         {}\n\n{}",
        heading(args, &spec),
        converted.items,
        spec.seed,
        converted.unique,
        statistics(&converted.passed, None)
    );
    if let Some(sampled) = &converted.sampled {
        text += &format!(
            "\n\nSampling {} items from the dataset...\n\n{}",
            sampled.len(),
            statistics(sampled, tokenizer.as_ref())
        );
    }
    let written = converted.conversations();
    text += &format!(
        "\nTotal conversations converted (after filtering): {}\n\nWriting file: {}\n",
        written.len(),
        output.display()
    );
    write_text(output, &conversations_text(written, 2))?;
    tacho_report::out().write_all(text.as_bytes())?;
    saved(output);
    Ok(Exit::Done)
}

/// The parameters, in the format of vLLM's script.
fn heading(args: &SharegptArgs, spec: &DumpSpec) -> String {
    let shown = |limit: Option<usize>| limit.map_or_else(|| "None".to_owned(), |limit| limit.to_string());
    let mut text = format!(
        "Input parameters:\nseed={}, max_items={}, min_content_len={}, max_content_len={}, min_turns={}, \
         max_turns={}\n\n",
        spec.seed,
        shown(spec.max_items),
        shown(spec.min_content_len),
        shown(spec.max_content_len),
        shown(spec.min_turns),
        shown(spec.max_turns)
    );
    if let Some(model) = &args.model {
        text += &format!("Loading tokenizer from: {model}\n");
    }
    text + &format!("Reading file: {}\n", args.files[0].display())
}

fn statistics(conversations: &[Conversation], tokenizer: Option<&Tokenizer>) -> String {
    let sum = |count: &dyn Fn(&str) -> usize, from: usize| {
        let of = move |conversation: &Conversation| {
            conversation.messages.iter().skip(from).step_by(2).map(|text| count(text)).sum::<usize>() as f64
        };
        conversations.iter().map(of).collect::<Vec<f64>>()
    };
    let both = |count: &dyn Fn(&str) -> usize| -> Vec<f64> {
        sum(count, 0).iter().zip(sum(count, 1)).map(|(user, assistant)| user + assistant).collect()
    };
    // As in vLLM's script: number of spaces plus one.
    let words: &dyn Fn(&str) -> usize = &|text| text.matches(' ').count() + 1;
    let mut table = Describe::new(PERCENTILES);
    table.row("user_turns", &sum(&|_| 1, 0));
    table.row("assistant_turns", &sum(&|_| 1, 1));
    table.row("user_words", &sum(words, 0));
    table.row("assistant_words", &sum(words, 1));
    table.row("conv_turns", &both(&|_| 1));
    table.row("conv_words", &both(words));
    table.row("conv_characters", &both(&|text| text.chars().count()));
    if let Some(tokenizer) = tokenizer {
        let tokens: &dyn Fn(&str) -> usize = &|text| tokenizer.encode(text, true).len();
        for (name, from) in [("user_tokens", 0), ("assistant_tokens", 1)] {
            let means = sum(tokens, from).into_iter().zip(sum(&|_| 1, from));
            table.row(
                name,
                &means
                    .map(|(tokens, turns)| if turns > 0.0 { (tokens / turns).trunc() } else { 0.0 })
                    .collect::<Vec<f64>>(),
            );
        }
    }
    format!("Collecting statistics...\n\nStatistics:\n{}\n", table.text(6))
}

pub(crate) fn trace_format(flag: &str, name: &str) -> anyhow::Result<Format> {
    let hint = |meant| Misused(format!("{flag} {name:?} is not a known format; did you mean {meant}?"));
    let meant = || nearest(name, Format::words()).map(hint);
    Format::named(name).map_err(|error| meant().unwrap_or_else(|| Misused(format!("{flag} {error}"))).into())
}

pub(crate) fn trace(args: &TraceArgs) -> anyhow::Result<Exit> {
    let format = args.format.as_deref().map(|name| trace_format("--format", name)).transpose()?;
    let options = Options::parse(args.options.iter().map(String::as_str))?;
    let to = args.to.as_deref().map(|name| trace_format("--to", name)).transpose()?.unwrap_or(Format::Model);
    let scaling = args.scaling();
    scaling.check()?;
    let mut trace = sessions::read(&args.input[0], format, &options)?;
    trace.scale(&scaling)?;
    // The model is streamed to the output; other formats are validated completely before anything is written.
    let text = if to == Format::Model { None } else { Some(trace.written_as(to)?) };
    let write = |out: &mut dyn Write| match &text {
        Some(text) => out.write_all(text.as_bytes()),
        None => trace.write_model(out),
    };
    let sessions = trace.trees().1;
    tracing::info!(format = trace.format.label(), sessions, requests = trace.steps.len(), "trace read");
    for notice in &trace.notices {
        tracing::warn!("{notice}");
    }
    let missing = trace.reading(to);
    if !missing.is_empty() {
        tracing::warn!("the file does not say it: read it with --option {}", missing.join(" --option "));
    }
    match &args.output {
        Some(path) => {
            write_whole(path, |out| write(out))?;
            saved(path);
        }
        None => {
            let mut out = BufWriter::new(tacho_report::out());
            write(&mut out).and_then(|()| out.flush()).context("cannot print the trace")?;
        }
    }
    Ok(Exit::Done)
}
