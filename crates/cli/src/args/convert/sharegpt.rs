//! Flags of `tacho convert sharegpt`: those of vLLM's converter.

use std::path::PathBuf;

use tacho_args::declare::*;
use tacho_workload::sessions::{DumpSpec, Language};

use crate::args::compare::missing;
use crate::args::error::{ArgError, Refusal};

static FILES: Group = group("file options", "options", "Input, output and tokenizer.");
static TESTS: Group = group("selection options", "options", "Conversations to keep.");

pub(crate) static TABLE: Table = Table {
    command: "tacho convert sharegpt",
    about: "Turn a raw ShareGPT dump into the conversations of tacho multi-turn.",
    examples: &[(
        "tacho convert sharegpt sharegpt_raw.json conversations.json --seed 99 --max-items 128",
        "128 conversations of the dump",
    )],
    groups: &[&FILES, &TESTS],
    flags: rows!(&[HELP], ROWS),
    ..Table::PLAIN
};

flags! {
    SharegptArgs {
        ROWS [
            files: Vec<PathBuf> = vllm(&["FILE"], Rest(2), "INPUT OUTPUT", Unset, &FILES, "The dump, and the file to write.").required();
            seed: i64 = vllm(&["--seed"], Int, "SEED", Preset::Int(0), &TESTS, "Seed of order and sample.");
            max_items: Option<usize> = vllm(&["--max-items"], Int, "N", Unset, &TESTS, "Maximum number of conversations.").at_least(0);
            min_turns: Option<usize> = vllm(&["--min-turns"], Int, "N", Unset, &TESTS, "Minimum messages per conversation.").at_least(0);
            max_turns: Option<usize> = vllm(&["--max-turns"], Int, "N", Unset, &TESTS, "Maximum messages per conversation; longer ones are truncated.").at_least(0);
            min_content_len: Option<usize> = vllm(&["--min-content-len"], Int, "N", Unset, &TESTS, "Minimum characters of every message. 0: no limit.").at_least(0);
            max_content_len: Option<usize> = vllm(&["--max-content-len"], Int, "N", Unset, &TESTS, "Maximum characters of every message. 0: no limit.").at_least(0);
            model: Option<String> = vllm(&["--model"], Str, "NAME", Unset, &FILES, "Tokenizer that counts tokens in the table of a sample.");
            language: String = own(&["--language"], Choice(&["any", "ascii", "non-ascii"]), "WHICH", Preset::Str("any"), &TESTS,
                "Messages to keep: any, ASCII only, or non-ASCII only.");
            as_vllm: bool = own(&["--as-vllm"], Switch, "", Off, &TESTS,
                "Do as vLLM's script does: only messages with other characters than ASCII, parts of a conversation in random \
                 order, and questions without an answer at the end.");
        ]
    }
}

impl SharegptArgs {
    pub(crate) fn read(v: &Values) -> Result<Self, ArgError> {
        let args = Self::from(v);
        if args.files.len() < 2 {
            return Err(missing(&TABLE, "OUTPUT"));
        }
        let above = |low: Option<usize>, high: Option<usize>| high.is_some_and(|high| high > 0 && low > Some(high));
        let order = |flag, allowed: &str| Refusal::range(flag, "larger", allowed);
        if above(args.min_turns, args.max_turns) {
            return Err(order("--min-turns", "at most --max-turns").into());
        }
        if above(args.min_content_len, args.max_content_len) {
            return Err(order("--min-content-len", "at most --max-content-len").into());
        }
        Ok(args)
    }

    /// Filter and format of the conversations.
    pub(crate) fn spec(&self) -> DumpSpec {
        DumpSpec {
            seed: self.seed.unsigned_abs(),
            max_items: self.max_items,
            min_turns: self.min_turns,
            max_turns: self.max_turns,
            min_content_len: self.min_content_len,
            max_content_len: self.max_content_len,
            language: match self.language.as_str() {
                "ascii" => Language::Ascii,
                "non-ascii" => Language::NonAscii,
                _ => Language::Any,
            },
            as_upstream: self.as_vllm,
        }
    }
}
