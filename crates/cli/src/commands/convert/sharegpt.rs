//! `tacho convert sharegpt`: converts a ShareGPT dump to conversations and prints statistics.

use std::io::Write;

use tacho_report::json::write_whole;
use tacho_report::tables::describe::Describe;
use tacho_text::{Tokenizer, TokenizerMode};
use tacho_workload::sessions::{Conversation, DumpSpec, conversations_text, convert_dump};

use crate::args::convert::sharegpt::SharegptArgs;
use crate::commands::sim::load;
use crate::exit::{Exit, saved};

const PERCENTILES: &[f64] = &[25.0, 50.0, 75.0, 90.0, 99.0, 99.9, 99.99];

pub(crate) fn run(args: &SharegptArgs) -> anyhow::Result<Exit> {
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
    write_whole(output, |out| out.write_all(conversations_text(written, 2).as_bytes()))?;
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
