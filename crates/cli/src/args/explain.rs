//! Flags of `tacho explain`.

use std::path::PathBuf;

use tacho_args::declare::*;

static EXPLAIN: Group =
    group("explain options", "explain options", "The run, what it is compared with, and what is printed.");

pub(crate) static TABLE: Table = Table {
    command: "tacho explain",
    about: "Explain where the time of a run went: queue, prefill, interference, stalls, client, front end.",
    examples: &[
        ("tacho explain run.rows", "the parts of TTFT, TPOT and end-to-end latency, and the setting each points at"),
        ("tacho explain new.json --compare base.json", "which part made the difference"),
        ("tacho explain run.rows --request 17", "one request as a waterfall"),
    ],
    groups: &[&EXPLAIN],
    flags: rows!(&[HELP], FLAGS),
    ..Table::PLAIN
};

flags! {
    ExplainArgs? {
        FLAGS [
            run: Vec<PathBuf> = tacho(&["RUN"], Rest(1), "RUN", Unset, &EXPLAIN,
                "The log of a run (--log), or a result that was saved with --save-detailed or has its log next to it.").required();
            compare: Option<PathBuf> = tacho(&["--compare"], Str, "OTHER", Unset, &EXPLAIN,
                "Log or result of the run to compare with, the baseline: print which part changed.").excludes(&["--request"]);
            profile: Option<PathBuf> = tacho(&["--profile"], Str, "FILE", Unset, &EXPLAIN,
                "Costs of the server, from tacho fit (default: estimated from the run).");
            request: Option<usize> = tacho(&["--request"], Int, "INDEX", Unset, &EXPLAIN, "Print the waterfall of this request.").between(0.0, 1e9);
            json: bool = switch(&["--json"], &EXPLAIN, "Print a JSON object.");
        ]
    }
}
