//! What was typed after `tacho convert sharegpt`: vLLM's converter, flag for flag.

use std::path::PathBuf;

use tacho_workload::sessions::{DumpSpec, Language};

use crate::args::error::{ArgError, Refusal, UsageError};
use crate::args::machinery::flag::{Flag, Group, HELP, Kind, Preset, Table, group, own, vllm};
use crate::args::machinery::grammar::Values;

use Kind::{Choice, Int, Rest, Str, Switch};
use Preset::{Off, Unset};

static FILES: Group = group("file options", "options", "What is read and written.");
static TESTS: Group = group("selection options", "options", "Which conversations are kept.");

/// The table.
pub(crate) static TABLE: Table = Table {
    command: "tacho convert sharegpt",
    about: "Turn a raw ShareGPT dump into the conversations of tacho multi-turn.",
    examples: &[(
        "tacho convert sharegpt sharegpt_raw.json conversations.json --seed 99 --max-items 128",
        "128 conversations of the dump",
    )],
    groups: &[&FILES, &TESTS],
    flags: FLAGS,
    ..Table::PLAIN
};

#[rustfmt::skip]
static FLAGS: &[Flag] = &[
    HELP,
    vllm(&["FILE"], Rest(usize::MAX), "INPUT OUTPUT", Unset, &FILES, "The dump, and the file to write."),
    vllm(&["--seed"], Int, "SEED", Preset::Int(0), &TESTS, "Seed of order and sample."),
    vllm(&["--max-items"], Int, "N", Unset, &TESTS, "How many conversations at most."),
    vllm(&["--min-turns"], Int, "N", Unset, &TESTS, "Fewest messages of a conversation."),
    vllm(&["--max-turns"], Int, "N", Unset, &TESTS, "Messages after which a conversation is cut."),
    vllm(&["--min-content-len"], Int, "N", Unset, &TESTS, "Minimum characters of every message. 0: no limit."),
    vllm(&["--max-content-len"], Int, "N", Unset, &TESTS, "Maximum characters of every message. 0: no limit."),
    vllm(&["--model"], Str, "NAME", Unset, &FILES, "Tokenizer that counts tokens in the table of a sample."),
    own(&["--language"], Choice(&["any", "ascii", "non-ascii"]), "WHICH", Preset::Str("any"), &TESTS,
        "Which messages a conversation may have: any, of ASCII characters alone, or each with another character."),
    own(&["--as-vllm"], Switch, "", Off, &TESTS,
        "Do as vLLM's script does: only messages with other characters than ASCII, parts of a conversation in random \
         order, and questions without an answer at the end."),
];

/// All flags of `tacho convert sharegpt`.
#[derive(Debug, Clone)]
pub(crate) struct SharegptArgs {
    pub(crate) input: PathBuf,
    pub(crate) output: PathBuf,
    pub(crate) model: Option<String>,
    pub(crate) spec: DumpSpec,
}

impl SharegptArgs {
    pub(crate) fn read(v: &Values) -> Result<Self, ArgError> {
        let usage = |error| ArgError::Usage { command: TABLE.command, error };
        let files = v.list("FILE").unwrap_or_default();
        let (input, output) = match &files[..] {
            [input, output] => (PathBuf::from(input), PathBuf::from(output)),
            [] => return Err(usage(UsageError::Missing { what: "INPUT OUTPUT".to_owned() })),
            [_] => return Err(usage(UsageError::Missing { what: "OUTPUT".to_owned() })),
            more => return Err(usage(UsageError::Unrecognized { tokens: more[2..].to_vec() })),
        };
        let count = |flag: &'static str| match v.maybe_int(flag) {
            None => Ok(None),
            Some(count) => usize::try_from(count).map(Some).map_err(|_| Refusal::OutOfRange {
                flag,
                value: count.to_string(),
                allowed: "a number that is not negative",
            }),
        };
        let spec = DumpSpec {
            seed: v.int("--seed").unsigned_abs(),
            max_items: count("--max-items")?,
            min_turns: count("--min-turns")?,
            max_turns: count("--max-turns")?,
            min_content_len: count("--min-content-len")?,
            max_content_len: count("--max-content-len")?,
            language: match v.text("--language").as_str() {
                "ascii" => Language::Ascii,
                "non-ascii" => Language::NonAscii,
                _ => Language::Any,
            },
            as_upstream: v.switch("--as-vllm"),
        };
        let above = |low: Option<usize>, high: Option<usize>| matches!((low, high), (Some(low), Some(high)) if low > 0 && high > 0 && low > high);
        if above(spec.min_turns, spec.max_turns) {
            return Err(order("--min-turns", "at most --max-turns").into());
        }
        if above(spec.min_content_len, spec.max_content_len) {
            return Err(order("--min-content-len", "at most --max-content-len").into());
        }
        Ok(SharegptArgs { input, output, model: v.maybe_text("--model"), spec })
    }
}

fn order(flag: &'static str, allowed: &'static str) -> Refusal {
    Refusal::OutOfRange { flag, value: "larger".to_owned(), allowed }
}
