//! Flags of `tacho history`.

use std::path::PathBuf;

use tacho_args::declare::*;
use tacho_args::repr::quoted;
use tacho_record::history::History;

use super::error::{ArgError, ArgumentError};
use super::shared::history::{DIRECTORY, Pairs, TAG, TAG_GIT, pairs};
use crate::args::shared::tags::WRITES;

static OPTIONS: Group = group("history options", "options", "The history, and what of it.");

const GROUPS: &[&Group] = &[&OPTIONS];

const PLACE: Flag =
    Flag { help: "Directory of the history. TACHO_HISTORY sets it for all commands.", ..DIRECTORY.within(&OPTIONS) }
        .required();
const FILTER: Flag = tacho(
    &["--filter"],
    Kind::Str,
    "KEY=VALUE",
    DefaultValue::Unset,
    &OPTIONS,
    "Only entries with these tags or settings, separated by commas, such as branch=main,model_id=m. Can be repeated.",
)
.joining();
const JSON: Flag = switch(&["--json"], &OPTIONS, "Print JSON.");

const fn table(
    command: &'static str,
    about: &'static str,
    examples: &'static [(&'static str, &'static str)],
    flags: &'static [Flag],
) -> Table {
    Table { command, about, examples, groups: GROUPS, flags, ..Table::PLAIN }
}

pub(crate) static ADD_TABLE: Table = table(
    "tacho history add",
    "Add results to a history: of tacho, vLLM or another tool.",
    &[("tacho history add results --history bench --tag-git", "all results of a directory, with commit and branch")],
    rows!(&[HELP], ADD),
);

flags! {
    AddArgs? {
        ADD [
            results: Vec<PathBuf> = tacho(&["RESULT"], Rest(usize::MAX), "RESULT [RESULT ...]", Unset, &OPTIONS,
                "Results, logs, or directories of results. One that is there already gets the new tags.").required();
            history: History = PLACE => history;
            tags: Pairs = TAG.within(&OPTIONS) => pairs;
            git: bool = TAG_GIT.within(&OPTIONS);
        ]
    }
}

pub(crate) static LIST_TABLE: Table = table(
    "tacho history list",
    "List the entries of a history, a line each.",
    &[("tacho history list --history bench --filter branch=main", "the entries of a branch")],
    rows!(&[HELP], LIST),
);

flags! {
    ListArgs? {
        LIST [
            history: History = PLACE => history;
            filter: Pairs = FILTER => pairs;
            json: bool = JSON;
        ]
    }
}

pub(crate) static SHOW_TABLE: Table = table(
    "tacho history show",
    "Show an entry of a history: tags, settings, warnings and metrics.",
    &[("tacho history show 20261103 --history bench", "the start of an id, or of a commit, is enough")],
    rows!(&[HELP], SHOW),
);

flags! {
    ShowArgs? {
        SHOW [
            ids: Vec<String> = tacho(&["ID"], Rest(1), "ID", Unset, &OPTIONS,
                "The entry: the start of its id or of its commit.").required();
            history: History = PLACE => history;
            filter: Pairs = FILTER => pairs;
            json: bool = JSON;
        ]
    }
}

pub(crate) static TREND_TABLE: Table = table(
    "tacho history trend",
    "Find the entries with which metrics changed.",
    &[
        ("tacho history trend --history bench --metric p99_ttft_ms", "each series of entries with the same settings"),
        ("tacho history trend --history bench --filter branch=main --fail-if-worse 5", "for CI: exit code 3"),
    ],
    rows!(&[HELP], TREND),
);

flags! {
    TrendArgs? {
        TREND [
            history: History = PLACE => history;
            metrics: Option<String> = tacho(&["--metric"], Str, "KEYS", Unset, &OPTIONS,
                "Metrics, separated by commas (default: throughput, TTFT, TPOT and others that the entries have).").joining();
            filter: Pairs = FILTER => pairs;
            across: Option<String> = tacho(&["--across"], Str, "KEYS", Unset, &OPTIONS,
                "Tags and settings, separated by commas, that may differ within a series. By default only commit, server and workload may.")
                .joining();
            fail_if_worse: Option<i64> = tacho(&["--fail-if-worse"], Int, "N", Unset, &OPTIONS,
                "Exit with 3 if a metric got worse with one of the last N entries of its series. A change takes three entries to be seen.")
                .at_least(3);
            json: bool = JSON;
        ]
    }
}

pub(crate) static DIFF_TABLE: Table = table(
    "tacho history diff",
    "Compare two entries of a history, as tacho compare does.",
    &[("tacho history diff 1a2b3c4 5d6e7f8 --history bench", "two commits")],
    rows!(&[HELP], DIFF),
);

flags! {
    DiffArgs? {
        DIFF [
            ids: Vec<String> = tacho(&["ID ID"], Rest(2), "ID ID", Unset, &OPTIONS,
                "The baseline and the candidate: the start of their ids or commits.").required();
            history: History = PLACE => history;
            filter: Pairs = FILTER => pairs;
            html: Option<PathBuf> = tacho(&["--html"], Str, "FILE", Unset, &OPTIONS, "Write an HTML report too.").tagged(WRITES);
        ]
    }
}

pub(crate) static PRUNE_TABLE: Table = table(
    "tacho history prune",
    "Remove old entries of a history; without --yes, say which.",
    &[("tacho history prune --history bench --older-than 90 --yes", "entries of more than 90 days ago")],
    rows!(&[HELP], PRUNE),
);

flags! {
    PruneArgs? {
        PRUNE [
            history: History = PLACE => history;
            keep: Option<i64> = tacho(&["--keep"], Int, "N", Unset, &OPTIONS, "Keep the newest N of the entries that --filter selects.")
                .at_least(0).excludes(&["--older-than"]);
            older_than: Option<f64> = tacho(&["--older-than"], Float, "DAYS", Unset, &OPTIONS, "Remove entries from more than this many days ago.")
                .between(0.0, 36500.0);
            filter: Pairs = FILTER => pairs;
            yes: bool = switch(&["--yes"], &OPTIONS, "Remove them. Without it, they are only listed.");
        ]
    }
}

impl PruneArgs {
    pub(crate) fn read(v: &Values) -> Result<Self, ArgError> {
        let args = PruneArgs::parse(v)?;
        if args.keep.is_none() && args.older_than.is_none() {
            return Err(ArgumentError::other("pass --keep N or --older-than DAYS").into());
        }
        Ok(args)
    }
}

pub(crate) static SITE_TABLE: Table = table(
    "tacho history site",
    "Make a static site of a history: trends, Pareto front, and a page per entry.",
    &[("tacho history site --history bench -o public", "open public/index.html, or publish the directory")],
    rows!(&[HELP], SITE),
);

flags! {
    SiteArgs? {
        SITE [
            history: History = PLACE => history;
            output: Option<PathBuf> = tacho(&["-o", "--output-dir"], Str, "DIR", Unset, &OPTIONS, "Directory of the site.").required();
            filter: Pairs = FILTER => pairs;
            title: String = tacho(&["--title"], Str, "TEXT", DefaultValue::Str("Benchmark history"), &OPTIONS, "Title of the site.");
        ]
    }
}

/// The row is required, so that there is a value.
fn history(setting: Setting<'_>) -> Result<History, ArgumentError> {
    match setting.value.as_str() {
        Some(directory) if !directory.is_empty() => Ok(History::at(directory)),
        _ => Err(ArgumentError::other(format!("{} {}: pass a directory", setting.flag, quoted("")))),
    }
}
