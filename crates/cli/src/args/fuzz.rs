//! Fuzzes command lines and configuration files: each must parse or fail with an error, never with a panic, an abort,
//! or unbounded memory. `TACHO_FUZZ_COUNT=1000000 cargo test --release -p tacho-cli --lib fuzz -- --nocapture
//! --test-threads=1` tries a million of each kind on all cores.

use std::ffi::OsString;

use tacho_args::config;
use tacho_testkit::{Counted, fuzz};

use super::{program::parse, serve::TABLE};
use crate::commands::COMMANDS;

#[global_allocator]
static COUNTED: Counted = Counted;

/// Command lines, one word per line.
const LINES: [&str; 8] = [
    "serve\n--request-rate\n10\n--num-prompts\n200\n--extra-body\n{\"a\": [1, null]}\n--goodput\nttft:100\ntpot:5",
    "serve\n--dataset-name\nrandom\n--random-range-ratio\n{\"input\": 0.5, \"output\": 0}\n--header\nA=b\n--ramp-up-strategy\nlinear",
    "throughput\n--backend\nvllm\n--input-len\n8\n--output-len=4\n-O3\n--hf-overrides.a.b\n1",
    "sweep\nserve\n--serve-cmd\nx\n--bench-cmd\ny z\n-o\nd\n--num-runs\n3",
    "gate\na.json\nb.json\n--max-regression\np99_ttft_ms:5%",
    "sim\n--port\n0\n--fault-rate\n0.5\n--start-delay\n1e3",
    "selfcheck\n--streams\n10\n20\n--rates\n5",
    "convert\ntrace\nin\nout\n--option\na=b",
];

#[test]
fn fuzz_command_lines() {
    fuzz("command lines", &LINES, |bytes| {
        let text = String::from_utf8_lossy(bytes);
        let _ = parse(COMMANDS, text.split('\n').map(OsString::from)).is_ok();
    });
}

#[test]
fn fuzz_config_files() {
    let good = [
        &b"request-rate: 10\nnum_prompts: 5\nsave-result: true\nheader:\n  - A=b\n  - 'C=d'\nextra-body: {a: [1, ~]}\n"
            [..],
        b"%YAML 1.2\n---\n&a model: \"x\\u00e9\"\ntop-p: |\n  0.5\nseed: 0x1f\n...\n",
        b"a: &x [*x, *x]\n? b\n: c\n<<: {d: e}\n",
    ];
    fuzz("config files", &good, |bytes| {
        let _ = config::entries(&String::from_utf8_lossy(bytes), &TABLE).is_ok();
    });
}
