//! Flags of `tacho bundle`, `tacho verify` and `tacho reproduce`.

use std::path::PathBuf;

use tacho_args::declare::*;
use tacho_decide::compare::Confidence;

use super::compare::{confidence, share};
use super::shared::sign_in::{self, SIGN_IN};
use super::{error::ArgError, serve};
use crate::args::shared::tags::WRITES;

static BUNDLE: Group = group("bundle options", "bundle options", "The run, the file to write, and what is added.");
static VERIFY: Group = group("verify options", "verify options", "The bundle and the key of its signature.");
static REPRODUCE: Group = group("reproduce options", "reproduce options", "The bundle, and what counts as agreement.");
static SERVER: Group = group("server options", "server options", "The server, and how it is reached.");

pub(crate) static BUNDLE_TABLE: Table = Table {
    command: "tacho bundle",
    about: "Pack a result with everything that supports it into one file: requests, rows, timestamps, server metrics.",
    examples: &[
        ("tacho bundle result.json -o result.tacho.zip", "with the request log next to the result"),
        ("tacho bundle run.rows --workload requests.jsonl --sign key.pem", "a log, its requests, and your signature"),
    ],
    groups: &[&BUNDLE],
    flags: rows!(&[HELP], BUNDLE_FLAGS),
    ..Table::PLAIN
};

flags! {
    BundleArgs? {
        BUNDLE_FLAGS [
            run: Vec<PathBuf> = tacho(&["RUN"], Rest(1), "RUN", Unset, &BUNDLE,
                "A result that has its log next to it or was saved with --save-detailed, or the log of a run (--log).").required();
            output: Option<PathBuf> = tacho(&["--output", "-o"], Str, "FILE", Unset, &BUNDLE,
                "File to write (default: the name of RUN with .tacho.zip).").tagged(WRITES);
            workload: Option<PathBuf> = tacho(&["--workload"], Str, "FILE", Unset, &BUNDLE,
                "The requests that --save-workload wrote (default: the file that the command of the run names; otherwise made again \
                 from its flags and seed, if the dataset is synthetic).").excludes(&["--no-workload"]);
            no_workload: bool = switch(&["--no-workload"], &BUNDLE,
                "Leave out the requests. Those of a synthetic dataset follow from the command and the seed; others cannot be checked.");
            selfcheck: Option<Option<String>> = tacho(&["--selfcheck"], OptionalStr, "FILE", Off, &BUNDLE,
                "Add what tacho selfcheck --json wrote on this machine; without FILE, measure it now, for about 20 s.");
            sign: Option<PathBuf> = tacho(&["--sign"], Str, "FILE", Unset, &BUNDLE, "Sign with this Ed25519 key (PKCS#8, PEM).");
        ]
    }
}

pub(crate) static VERIFY_TABLE: Table = Table {
    command: "tacho verify",
    about: "Check a bundle: recompute its metrics from the rows, and compare rows, plan and server. Exit code 3 if it is invalid.",
    examples: &[
        ("tacho verify result.tacho.zip", "VALID, VALID WITH REMARKS or INVALID, with the reasons"),
        ("tacho verify result.tacho.zip --key public.pem", "and signed by this key"),
    ],
    groups: &[&VERIFY],
    flags: rows!(&[HELP], VERIFY_FLAGS),
    ..Table::PLAIN
};

flags! {
    VerifyArgs? {
        VERIFY_FLAGS [
            bundle: Vec<PathBuf> = tacho(&["BUNDLE"], Rest(1), "BUNDLE", Unset, &VERIFY, "A file that tacho bundle wrote.").required();
            key: Option<PathBuf> = tacho(&["--key"], Str, "FILE", Unset, &VERIFY,
                "Public key (PEM) that must have signed the bundle.");
            json: bool = switch(&["--json"], &VERIFY, "Print a JSON object.");
        ]
    }
}

pub(crate) static REPRODUCE_TABLE: Table = Table {
    command: "tacho reproduce",
    about: "Send the requests of a bundle to a server at the same times: AGREES, DIFFERS or INCONCLUSIVE. Exit code 3 unless it agrees.",
    examples: &[
        ("tacho reproduce result.tacho.zip --base-url http://localhost:8000", "means within 10% of the published ones"),
        ("tacho reproduce result.tacho.zip --base-url http://gpu1:8000 --num-runs 5 --margin 5%", "five runs, closer"),
    ],
    groups: &[&REPRODUCE, &SERVER, &SIGN_IN],
    flags: rows!(&[HELP], REPRODUCE_FLAGS, CONNECTION, sign_in::FLAGS),
    ..Table::PLAIN
};

flags! {
    ReproduceFlags? {
        REPRODUCE_FLAGS [
            bundle: Vec<PathBuf> = tacho(&["BUNDLE"], Rest(1), "BUNDLE", Unset, &REPRODUCE, "A file that tacho bundle wrote.").required();
            num_runs: usize = tacho(&["--num-runs"], Int, "N", DefaultValue::Int(1), &REPRODUCE,
                "Number of runs. With two or more, what differs from run to run counts.").between(1.0, 1000.0);
            margin: Option<f64> = tacho(&["--margin"], Str, "PERCENT", DefaultValue::Str("10%"), &REPRODUCE,
                "Largest change of a mean that counts as agreement.") => share;
            confidence: Confidence = tacho(&["--confidence"], Int, "PERCENT", DefaultValue::Int(95), &REPRODUCE,
                "Confidence level, 80 to 99. 100 minus it bounds each wrong answer.").between(80.0, 99.0) => confidence;
            result_dir: Option<PathBuf> = tacho(&["--result-dir"], Str, "DIR", Unset, &REPRODUCE,
                "Directory for the results of the runs and their logs (default: none are saved).");
            allow_inconclusive: bool = switch(&["--allow-inconclusive"], &REPRODUCE, "Exit with 0 if the answer is INCONCLUSIVE.");
        ]
    }
}

/// Flags of `tacho serve` that say where the server is; all others come from the bundle.
#[rustfmt::skip]
const CONNECTION: &[Flag] = &[
    vllm(&["--base-url"], Str, "URL", Unset, &SERVER, "Server address with scheme; several are replicas, see tacho serve.").joining(),
    tacho(&["--api-key"], Str, "KEY", Unset, &SERVER, "API key, sent as Authorization: Bearer KEY (default: $OPENAI_API_KEY)."),
    vllm(&["--header"], AnyNumber, "KEY=VALUE", Unset, &SERVER, "Headers with secrets that the requests had, which bundles do not keep."),
    vllm(&["--insecure"], Switch, "", Off, &SERVER, "Do not verify the server's TLS certificate."),
    tacho(&["--ca-file"], Str, "FILE", Unset, &SERVER, "CA certificates in PEM form to trust instead of the system's."),
    switch(&["--http2"], &SERVER, "Use HTTP/2, see tacho serve."),
    switch(&["--reset-caches"], &SERVER, "Empty the server's caches before each run, see tacho serve."),
    switch(&["--sim"], &SERVER, "Send to the built-in simulator instead of a server.").excludes(&["--base-url"]),
    tacho(&["--sim-profile"], Str, "NAME", Unset, &SERVER, "Speed of the simulator (default: that of the simulator in the bundle, if it is a built-in one, otherwise tiny).").needs(&["--sim"]),
    tacho(&["--sim-args"], Str, "FLAGS", Unset, &SERVER, "Further flags of tacho sim, as one text.").needs(&["--sim"]),
];

#[derive(Debug, Clone)]
pub(crate) struct ReproduceArgs {
    pub(crate) flags: ReproduceFlags,
    /// The flags of `tacho serve` that say where the server is.
    pub(crate) connection: Values,
}

impl ReproduceArgs {
    pub(crate) fn read(values: &Values) -> Result<Self, ArgError> {
        values.check()?;
        let mut connection = Values::defaults(&serve::TABLE);
        connection.take_over(values);
        ["--num-runs", "--result-dir"].iter().for_each(|name| connection.forget(name));
        if !connection.is_set("--base-url") && !connection.is_set("--sim") {
            return Err(super::compare::missing(&REPRODUCE_TABLE, "--base-url"));
        }
        Ok(ReproduceArgs { flags: ReproduceFlags::parse(values)?, connection })
    }
}
