//! What was typed after `tacho report`.

use std::path::PathBuf;

use super::compare::missing;
use super::error::ArgError;
use super::flag::{Flag, Group, Kind, Preset, Table, own};
use super::grammar::Values;

use Kind::{Help, Rest, Str, Switch};
use Preset::{Off, Unset};

static REPORT: Group = Group { title: "report options", vllm_title: "report options", about: "What is shown." };

/// The table.
pub(crate) static TABLE: Table = Table {
    command: "tacho report",
    about: "Make the tables of a dashboard from a folder of results.",
    examples: &[("tacho report results --markdown", "prints them; --save writes benchmark_results.md and .json there")],
    groups: &[&REPORT],
    flags: FLAGS,
};

#[rustfmt::skip]
static FLAGS: &[Flag] = &[
    own(&["-h", "--help"], Help, "TOPIC", Unset, &REPORT, "Show this help. --help=all explains every option."),
    own(&["DIR"], Rest, "DIR", Unset, &REPORT, "The folder. Commands recorded beside results add columns."),
    own(&["--result", "-r"], Str, "DIR", Unset, &REPORT, "The folder, as vLLM's script names it."),
    own(&["--markdown"], Switch, "", Off, &REPORT, "Print Markdown tables; this is the default."),
    own(&["--json"], Switch, "", Off, &REPORT, "Print the rows as JSON, as tacho compare reads them."),
    own(&["--save"], Switch, "", Off, &REPORT,
        "Write benchmark_results.md and benchmark_results.json into the folder."),
];

/// All flags of `tacho report`.
#[derive(Debug, Clone)]
pub(crate) struct ReportCommandArgs {
    pub(crate) folder: PathBuf,
    pub(crate) markdown: bool,
    pub(crate) json: bool,
    pub(crate) save: bool,
}

impl ReportCommandArgs {
    pub(crate) fn read(v: &Values) -> Result<Self, ArgError> {
        let mut words = v.list("DIR").unwrap_or_default();
        words.extend(v.maybe_text("--result"));
        if words.len() > 1 {
            let error = super::error::UsageError::Unrecognized { tokens: words.split_off(1) };
            return Err(ArgError::Usage { command: TABLE.command, error });
        }
        let folder = words.pop().ok_or_else(|| missing(&TABLE, "DIR"))?;
        let (json, save) = (v.switch("--json"), v.switch("--save"));
        // Saving is quiet unless a format is asked for.
        let markdown = v.switch("--markdown") || !(json || save);
        Ok(ReportCommandArgs { folder: folder.into(), markdown, json, save })
    }
}
