//! Flags of `tacho multi-turn`: those of vLLM's script.

use std::path::PathBuf;

use tacho_args::declare::*;
use tacho_client::Headers;

use crate::args::error::{ArgError, ArgumentError};
use crate::args::offline::rows::LIVE;
use crate::args::shared::live::{self, LiveArgs};
use crate::args::shared::sign_in::{self, SIGN_IN, SignInArgs};
use crate::args::shared::tags::WRITES;

const U32_MAX: f64 = u32::MAX as f64;

static INPUT: Group = group("conversation options", "options", "Conversations and seed.");
static SERVER: Group = group("server options", "options", "Server, model and requests.");
static LOAD: Group = group("load options", "options", "Clients, turns and rate.");
static OUTPUT: Group = group("output options", "options", "Tables and files.");

pub(crate) static TABLE: Table = Table {
    command: "tacho multi-turn",
    about: "Benchmark multi-turn conversations, as vLLM's multi-turn script does.",
    examples: &[
        ("tacho multi-turn -i conversations.json -m gpt2 -u http://localhost:8000 --num-clients 4", "four clients"),
        ("tacho multi-turn -i generate.json -m gpt2 --dry-run --save-workload conversations.json", "only make them"),
    ],
    groups: &[&INPUT, &SERVER, &SIGN_IN, &LOAD, &OUTPUT, &LIVE],
    flags: rows!(&[HELP], ROWS, sign_in::FLAGS, UNREAD, &[live::SCREEN, live::HTTP]),
    basics: "\
        --input-file --model --url --api-key --num-clients --max-active-conversations --max-num-requests \
        --max-turns --request-rate --limit-max-tokens --limit-min-tokens --warmup-step --no-early-stop \
        --conversation-sampling --seed --output-file --excel-output --stats-json-output --verify-output \
        --dry-run --live",
    ..Table::PLAIN
};

/// Accepted for compatibility with scripts and ignored.
#[rustfmt::skip]
const UNREAD: &[Flag] = &[
    vllm(&["--trust-remote-code"], Switch, "", Off, &INPUT, "Accepted for old scripts. Has no effect."),
];

flags! {
    MultiTurnArgs {
        ROWS [
            input_file: PathBuf = vllm(&["--input-file", "-i"], Str, "FILE", Unset, &INPUT,
                "Conversations (a list), or how to make them (an object with filetype generate_conversations).").required();
            output_file: Option<PathBuf> = vllm(&["--output-file", "-o"], Str, "FILE", Unset, &OUTPUT, "Write finished conversations with the server's responses.").tagged(WRITES);
            seed: u32 = vllm(&["--seed"], Int, "SEED", DefaultValue::Int(0), &INPUT, "Seed of conversations, choices and pauses.").between(0.0, U32_MAX);
            model: String = vllm(&["--model", "-m"], Str, "NAME", Unset, &SERVER, "Model to request, and its tokenizer.").required();
            served_model_name: Option<String> = vllm(&["--served-model-name"], Str, "NAME", Unset, &SERVER, "Model name in requests, if it differs from --model.");
            url: String = vllm(&["--url", "-u"], Str, "URL", DefaultValue::Str("http://localhost:8000"), &SERVER, "Server address.");
            api_key: Option<String> = vllm(&["--api-key"], Str, "KEY", Unset, &SERVER, "API key, sent as Authorization: Bearer KEY.");
            header: Vec<String> = vllm(&["--header"], Repeated, "NAME:VALUE", Unset, &SERVER, "Header sent with every request; may be repeated.");
            num_clients: usize = vllm(&["--num-clients", "-p"], Int, "N", DefaultValue::Int(1), &LOAD, "Concurrent clients, each with at most one request in flight.").between(1.0, U32_MAX);
            max_active_conversations: Option<i64> = vllm(&["--max-active-conversations", "-k"], Int, "N", Unset, &LOAD,
                "Maximum active conversations of all clients (default: the number of clients).");
            max_num_requests: Option<i64> = vllm(&["--max-num-requests", "-n"], Int, "N", Unset, &LOAD, "Maximum requests of all clients.");
            warmup_step: bool = vllm(&["--warmup-step"], Switch, "", Off, &LOAD, "Warm up: send all first turns before the measurement.");
            warmup_percentages: String = vllm(&["--warmup-percentages"], Str, "LIST", DefaultValue::Str("0%"), &OUTPUT,
                "Percentages of samples to exclude as warm-up, separated by commas; one table each.");
            max_turns: Option<usize> = vllm(&["--max-turns"], Int, "N", Unset, &LOAD, "Maximum messages per conversation.").between(1.0, U32_MAX);
            no_early_stop: bool = vllm(&["--no-early-stop"], Switch, "", Off, &LOAD, "Continue until all clients finish, not only the first.");
            limit_max_tokens: i64 = vllm(&["--limit-max-tokens"], Int, "N", DefaultValue::Int(0), &LOAD,
                "Maximum output tokens. 0 uses the length of the recorded response; a negative value sets no limit.");
            limit_min_tokens: i64 = vllm(&["--limit-min-tokens"], Int, "N", DefaultValue::Int(0), &LOAD,
                "Minimum output tokens. Checked and shown; not sent unless --exact-lengths is given, as in vLLM.");
            request_rate: f64 = vllm(&["--request-rate"], Float, "RATE", DefaultValue::Float(0.0), &LOAD,
                "Requests per second of each client: a random pause follows each request.");
            max_retries: Option<u32> = vllm(&["--max-retries"], Int, "N", Unset, &LOAD, "Retries of a failed request (default: $MULTITURN_BENCH_MAX_RETRIES).").between(0.0, U32_MAX);
            conversation_sampling: String = vllm(&["--conversation-sampling"], Choice(&["round_robin", "random"]), "HOW", DefaultValue::Str("round_robin"), &LOAD,
                "Order of the active conversations.");
            verify_output: bool = vllm(&["--verify-output"], Switch, "", Off, &OUTPUT, "Fail if a response differs from the recorded one.");
            request_timeout_sec: f64 = vllm(&["--request-timeout-sec"], Seconds, "SECONDS", DefaultValue::Float(120.0), &SERVER, "Maximum seconds per request.");
            no_stream: bool = vllm(&["--no-stream"], Switch, "", Off, &SERVER, "Request whole responses instead of streams.");
            send_conversation_id: bool = vllm(&["--send-conversation-id"], Switch, "", Off, &SERVER, "Send conversation_id and X-Session-ID.");
            excel_output: bool = vllm(&["--excel-output", "-e"], Switch, "", Off, &OUTPUT, "Write the tables as an Excel workbook.");
            stats_json_output: Option<PathBuf> = vllm(&["--stats-json-output"], Str, "FILE", Unset, &OUTPUT, "Write the metrics of every request as JSON.").tagged(WRITES);
            verbose: bool = vllm(&["--verbose", "-v"], Switch, "", Off, &OUTPUT, "Log what each client does, and add the time between a user's messages.");
            print_content: bool = vllm(&["--print-content"], Switch, "", Off, &OUTPUT, "Print prompts and responses as they arrive.");
            exact_lengths: bool = tacho(&["--exact-lengths"], Switch, "", Off, &LOAD,
                "Request responses of exactly the maximum length (min_tokens, ignore_eos).");
            dry_run: bool = tacho(&["--dry-run"], Switch, "", Off, &INPUT, "Generate the conversations without sending them.");
            save_workload: Option<PathBuf> = tacho(&["--save-workload"], Str, "FILE", Unset, &OUTPUT, "Write the conversations before the run.").tagged(WRITES);
        ]
        ..live: LiveArgs;
        ..sign_in: SignInArgs;
    }
}

impl MultiTurnArgs {
    pub(crate) fn read(v: &Values) -> Result<Self, ArgError> {
        let args = Self::from(v);
        args.check()?;
        let header = args.headers()?.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"));
        let key = args.api_key.as_ref().map(|_| "--api-key").or(header.then_some("--header"));
        args.sign_in.check(key, &args.url)?;
        args.percentages()?;
        args.retries()?;
        Ok(args)
    }

    /// Headers of all requests, in the order in which they are set.
    pub(crate) fn headers(&self) -> Result<Headers, ArgumentError> {
        let headers = self.header.iter().map(|text| header(text)).collect::<Result<_, _>>()?;
        Ok(combined(headers, self.api_key.clone()))
    }

    /// Warm-up percentages, ascending.
    pub(crate) fn percentages(&self) -> Result<Vec<f64>, ArgumentError> {
        percentages(&self.warmup_percentages, self.warmup_step)
    }

    /// Number of retries, by the flag or its environment variable.
    pub(crate) fn retries(&self) -> Result<u32, ArgumentError> {
        const NAME: &str = "MULTITURN_BENCH_MAX_RETRIES";
        match (self.max_retries, std::env::var(NAME)) {
            (Some(retries), _) => Ok(retries),
            (None, Err(_)) => Ok(0),
            (None, Ok(value)) => {
                let parsed = value.trim().parse();
                parsed.map_err(|_| ArgumentError::range(NAME, value, "a whole number, 0 or more"))
            }
        }
    }

    fn check(&self) -> Result<(), ArgumentError> {
        let invalid = |flag, value: f64, allowed| Err(ArgumentError::range(flag, value, allowed));
        let (min, max) = (self.limit_min_tokens, self.limit_max_tokens);
        if (min > 0 || max > 0) && (min < 1 || max < 1 || min > max) {
            return invalid("--limit-min-tokens", min as f64, "both limits of 1 or more, the least at most the most");
        }
        if self.request_timeout_sec.is_nan() || self.request_timeout_sec <= 0.0 {
            return invalid("--request-timeout-sec", self.request_timeout_sec, "more than 0");
        }
        if self.request_rate.is_nan() || self.request_rate < 0.0 {
            return invalid("--request-rate", self.request_rate, "0 or more");
        }
        let clients = self.num_clients as i64;
        let limits = [
            ("--max-active-conversations", self.max_active_conversations),
            ("--max-num-requests", self.max_num_requests),
        ];
        match limits.into_iter().find_map(|(flag, limit)| Some((flag, limit.filter(|limit| *limit < clients)?))) {
            Some((flag, limit)) => invalid(flag, limit as f64, "at least one per client"),
            None => Ok(()),
        }
    }
}

fn percentages(text: &str, step: bool) -> Result<Vec<f64>, ArgumentError> {
    let allowed = "shares from 0% up to but not 100%, with commas between";
    let wrong = || ArgumentError::range("--warmup-percentages", text, allowed);
    let share =
        |part: &str| part.trim().trim_end_matches('%').parse::<f64>().ok().filter(|share| (0.0..100.0).contains(share));
    let mut shares = text.split(',').map(share).collect::<Option<Vec<f64>>>().ok_or_else(wrong)?;
    shares.sort_by(f64::total_cmp);
    Ok(if step { vec![0.0] } else { shares })
}

/// All headers, the API key's last. As in a dict of Python, a name that is given again keeps its position; on the wire, a
/// later header replaces an earlier one whose name differs in case only.
fn combined(headers: Vec<(String, String)>, key: Option<String>) -> Headers {
    let key = key.filter(|key| !key.is_empty()).map(|key| ("Authorization".to_owned(), format!("Bearer {key}")));
    let mut dict: Vec<(String, String)> = Vec::new();
    for (name, value) in headers.into_iter().chain(key) {
        match dict.iter_mut().find(|(known, _)| *known == name) {
            Some(known) => known.1 = value,
            None => dict.push((name, value)),
        }
    }
    dict.into_iter().collect()
}

/// Parses `Name: value` or `Name=value`; the colon takes precedence.
fn header(text: &str) -> Result<(String, String), ArgumentError> {
    let split = text.split_once(':').or_else(|| text.split_once('='));
    let pair = split.map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()));
    pair.filter(|(name, _)| !name.is_empty())
        .ok_or_else(|| ArgumentError::range("--header", "***", "Name: value or Name=value"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tacho_testkit::golden_json;

    #[test]
    fn headers_are_read_as_the_script_reads_them() {
        for case in golden_json("scenarios/multi-turn/headers.json")["parse"].as_array().unwrap() {
            let read = header(case["header"].as_str().unwrap());
            let expected =
                case["name"].as_str().map(|name| (name.to_owned(), case["value"].as_str().unwrap().to_owned()));
            assert_eq!(read.ok(), expected, "{case}");
        }
    }

    #[test]
    fn a_repeated_name_keeps_its_position() {
        let given = [("Z", "1"), ("z", "2"), ("Z", "3")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        let sent = combined(given.to_vec(), None);
        // aiohttp sends the last entry of {"Z": "3", "z": "2"}.
        assert_eq!(sent.iter().collect::<Vec<_>>(), [("z", "2")]);
    }

    #[test]
    fn headers_and_key_go_out_as_the_script_sends_them() {
        for case in golden_json("scenarios/multi-turn/headers.json")["combine"].as_array().unwrap() {
            let pairs = |list: &serde_json::Value| -> Vec<(String, String)> {
                let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
                list.as_array().into_iter().flatten().map(|pair| (text(&pair[0]), text(&pair[1]))).collect()
            };
            let found = combined(pairs(&case["headers"]), case["api_key"].as_str().map(str::to_owned));
            // On the wire, a later header replaces an earlier one, ignoring case.
            let mut sent: Vec<(String, String)> = Vec::new();
            for (name, value) in pairs(&case["result"]) {
                sent.retain(|(known, _)| !known.eq_ignore_ascii_case(&name));
                sent.push((name, value));
            }
            let found: Vec<(String, String)> =
                found.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
            assert_eq!(found, sent, "{case}");
        }
    }
}
