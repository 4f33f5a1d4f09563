//! Flags of `tacho record`.

use std::{net::SocketAddr, path::PathBuf};

use tacho_args::declare::*;

use super::error::ArgumentError;
use crate::args::shared::tags::WRITES;

static RECORD: Group = group("record options", "record options", "Addresses and the trace to write.");

pub(crate) static TABLE: Table = Table {
    command: "tacho record",
    about: "Record the traffic of a server as a trace without content: a proxy that keeps lengths, times and shared prefixes.",
    examples: &[
        ("tacho record --to http://localhost:8000 --output trace.jsonl", "clients then use http://127.0.0.1:9000"),
        ("tacho serve --base-url http://localhost:8000 --sessions trace.jsonl", "replays the trace"),
    ],
    groups: &[&RECORD],
    flags: rows!(&[HELP], FLAGS),
    ..Table::PLAIN
};

flags! {
    RecordArgs? {
        FLAGS [
            to: String = tacho(&["--to"], Str, "URL", Unset, &RECORD, "The server to pass requests on to, such as http://localhost:8000.").required();
            listen: SocketAddr = tacho(&["--listen"], Str, "HOST:PORT", DefaultValue::Str("127.0.0.1:9000"), &RECORD,
                "Address to listen on.") => address;
            output: PathBuf = tacho(&["--output", "-o"], Str, "FILE", DefaultValue::Str("trace.jsonl"), &RECORD,
                "File of the trace; it must not exist.").tagged(WRITES);
            tokenizer: Option<String> = tacho(&["--tokenizer"], Str, "NAME", Unset, &RECORD,
                "Tokenizer that finds shared prefixes, and counts tokens that the server does not report (default: built in).");
        ]
    }
}

fn address(setting: Setting<'_>) -> Result<SocketAddr, ArgumentError> {
    let text = String::from_flag(setting);
    text.parse()
        .map_err(|_| ArgumentError::range(setting.flag, &text, "an IP address and a port, such as 127.0.0.1:9000"))
}
