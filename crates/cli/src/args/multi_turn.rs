//! What was typed after `tacho multi-turn`: vLLM's multi-turn script, flag for flag.

use std::path::PathBuf;

use tacho_client::Headers;

use crate::args::error::{ArgError, Refusal, UsageError};
use crate::args::live::{self, LiveArgs};
use crate::args::machinery::flag::{Flag, Group, HELP, Kind, Preset, Table, group, own, vllm};
use crate::args::machinery::grammar::Values;
use crate::args::offline::rows::LIVE;

use Kind::{Choice, Float, Int, Repeated, Seconds, Str, Switch};
use Preset::{Off, Unset};

static INPUT: Group = group("conversation options", "options", "What is talked about.");
static SERVER: Group = group("server options", "options", "Whom to ask.");
static LOAD: Group = group("load options", "options", "How many at once, and for how long.");
static OUTPUT: Group = group("output options", "options", "What is printed and written.");

/// The table.
pub(crate) static TABLE: Table = Table {
    command: "tacho multi-turn",
    about: "Hold conversations with a server, its own answers as history, as vLLM's multi-turn benchmark does.",
    examples: &[
        ("tacho multi-turn -i conversations.json -m gpt2 -u http://localhost:8000 --num-clients 4", "four clients"),
        ("tacho multi-turn -i generate.json -m gpt2 --dry-run --save-workload conversations.json", "only make them"),
    ],
    groups: &[&INPUT, &SERVER, &LOAD, &OUTPUT, &LIVE],
    flags: FLAGS,
    ..Table::PLAIN
};

#[rustfmt::skip]
static FLAGS: &[Flag] = &[
    HELP,
    vllm(&["--input-file", "-i"], Str, "FILE", Unset, &INPUT,
        "Conversations (a list), or how to make them (an object with filetype generate_conversations)."),
    vllm(&["--output-file", "-o"], Str, "FILE", Unset, &OUTPUT, "Write finished conversations with the server's answers."),
    vllm(&["--seed"], Int, "SEED", Preset::Int(0), &INPUT, "Seed of conversations, choices and pauses."),
    vllm(&["--model", "-m"], Str, "NAME", Unset, &SERVER, "Model, and the tokenizer that counts."),
    vllm(&["--served-model-name"], Str, "NAME", Unset, &SERVER, "What requests call the model, where it is not --model."),
    vllm(&["--url", "-u"], Str, "URL", Preset::Str("http://localhost:8000"), &SERVER, "The server."),
    vllm(&["--api-key"], Str, "KEY", Unset, &SERVER, "Key to sign requests with."),
    vllm(&["--header"], Repeated, "NAME:VALUE", Unset, &SERVER, "A header for all requests. May be given several times."),
    vllm(&["--num-clients", "-p"], Int, "N", Preset::Int(1), &LOAD, "Clients. Each has one request in flight at most."),
    vllm(&["--max-active-conversations", "-k"], Int, "N", Unset, &LOAD,
        "Conversations that all clients together take turns with. As many as clients without it."),
    vllm(&["--max-num-requests", "-n"], Int, "N", Unset, &LOAD, "Requests of all clients together."),
    vllm(&["--warmup-step"], Switch, "", Off, &LOAD, "Send all first messages before the measurement."),
    vllm(&["--warmup-percentages"], Str, "LIST", Preset::Str("0%"), &OUTPUT,
        "Shares of the first samples to leave out, with commas between: a table each."),
    vllm(&["--max-turns"], Int, "N", Unset, &LOAD, "Most messages of a conversation."),
    vllm(&["--no-early-stop"], Switch, "", Off, &LOAD, "Let all clients finish when the first one has."),
    vllm(&["--limit-max-tokens"], Int, "N", Preset::Int(0), &LOAD,
        "Tokens to generate. 0 takes them from the recorded answer, below 0: no limit."),
    vllm(&["--limit-min-tokens"], Int, "N", Preset::Int(0), &LOAD,
        "Fewest tokens. Checked and shown; not sent unless --exact-lengths is given, as in vLLM."),
    vllm(&["--request-rate"], Float, "RATE", Preset::Float(0.0), &LOAD,
        "Requests per second of each client: the mean of a pause after each."),
    vllm(&["--max-retries"], Int, "N", Unset, &LOAD, "How often a failed request is sent again (default: MULTITURN_BENCH_MAX_RETRIES)."),
    vllm(&["--conversation-sampling"], Choice(&["round_robin", "random"]), "HOW", Preset::Str("round_robin"), &LOAD,
        "Which active conversation is next."),
    vllm(&["--verify-output"], Switch, "", Off, &OUTPUT, "Fail where an answer differs from the recorded one."),
    vllm(&["--request-timeout-sec"], Seconds, "SECONDS", Preset::Float(120.0), &SERVER, "How long a request may take."),
    vllm(&["--no-stream"], Switch, "", Off, &SERVER, "Ask for answers in one piece."),
    vllm(&["--send-conversation-id"], Switch, "", Off, &SERVER, "Send conversation_id and X-Session-ID."),
    vllm(&["--excel-output", "-e"], Switch, "", Off, &OUTPUT, "Write a workbook."),
    vllm(&["--stats-json-output"], Str, "FILE", Unset, &OUTPUT, "Write a sample per request."),
    vllm(&["--verbose", "-v"], Switch, "", Off, &OUTPUT, "Log what each client does, and add the time between a user's messages."),
    vllm(&["--print-content"], Switch, "", Off, &OUTPUT, "Print prompts and answers as they come."),
    vllm(&["--trust-remote-code"], Switch, "", Off, &INPUT, "Accepted, and not needed. No code is ever run."),
    own(&["--exact-lengths"], Switch, "", Off, &LOAD,
        "Ask for answers of exactly the tokens that they are limited to (min_tokens, ignore_eos)."),
    own(&["--dry-run"], Switch, "", Off, &INPUT, "Make the conversations and send nothing."),
    own(&["--save-workload"], Str, "FILE", Unset, &OUTPUT, "Write the conversations before they are held."),
    live::SCREEN,
    live::HTTP,
];

/// All flags of `tacho multi-turn`.
#[derive(Debug, Clone)]
pub(crate) struct MultiTurnArgs {
    pub(crate) input_file: PathBuf,
    pub(crate) output_file: Option<PathBuf>,
    pub(crate) seed: u32,
    pub(crate) model: String,
    pub(crate) served_model_name: Option<String>,
    pub(crate) url: String,
    /// In the order in which they are set.
    pub(crate) headers: Headers,
    pub(crate) num_clients: usize,
    pub(crate) max_active: Option<i64>,
    pub(crate) max_num_requests: Option<i64>,
    pub(crate) warmup_step: bool,
    pub(crate) warmup_percentages: Vec<f64>,
    pub(crate) max_turns: Option<usize>,
    pub(crate) early_stop: bool,
    pub(crate) limit_max_tokens: i64,
    pub(crate) limit_min_tokens: i64,
    pub(crate) request_rate: f64,
    pub(crate) max_retries: u32,
    pub(crate) random: bool,
    pub(crate) verify_output: bool,
    pub(crate) timeout: f64,
    pub(crate) stream: bool,
    pub(crate) send_conversation_id: bool,
    pub(crate) excel_output: bool,
    pub(crate) stats_json_output: Option<PathBuf>,
    pub(crate) verbose: bool,
    pub(crate) print_content: bool,
    pub(crate) exact_lengths: bool,
    pub(crate) dry_run: bool,
    pub(crate) save_workload: Option<PathBuf>,
    /// What is shown meanwhile.
    pub(crate) live: LiveArgs,
}

impl MultiTurnArgs {
    pub(crate) fn read(v: &Values) -> Result<Self, ArgError> {
        let required = |name: &'static str, what: &'static str| {
            v.maybe_text(name)
                .ok_or(ArgError::Usage { command: TABLE.command, error: UsageError::Missing { what: what.to_owned() } })
        };
        let path = |name| v.maybe_text(name).map(PathBuf::from);
        let mut headers = Vec::new();
        for text in v.list("--header").unwrap_or_default() {
            headers.push(header(&text)?);
        }
        let args = MultiTurnArgs {
            input_file: PathBuf::from(required("--input-file", "-i/--input-file")?),
            output_file: path("--output-file"),
            seed: within("--seed", v.int("--seed"), 0, "0 to 4294967295")? as u32,
            model: required("--model", "-m/--model")?,
            served_model_name: v.maybe_text("--served-model-name"),
            url: v.text("--url"),
            headers: combined(headers, v.maybe_text("--api-key")),
            num_clients: within("--num-clients", v.int("--num-clients"), 1, "1 or more")? as usize,
            max_active: v.maybe_int("--max-active-conversations"),
            max_num_requests: v.maybe_int("--max-num-requests"),
            warmup_step: v.switch("--warmup-step"),
            warmup_percentages: percentages(&v.text("--warmup-percentages"), v.switch("--warmup-step"))?,
            max_turns: v
                .maybe_int("--max-turns")
                .map(|turns| within("--max-turns", turns, 1, "1 or more"))
                .transpose()?
                .map(|turns| turns as usize),
            early_stop: !v.switch("--no-early-stop"),
            limit_max_tokens: v.int("--limit-max-tokens"),
            limit_min_tokens: v.int("--limit-min-tokens"),
            request_rate: v.float("--request-rate"),
            max_retries: within("--max-retries", retries(v)?, 0, "0 or more")? as u32,
            random: v.text("--conversation-sampling") == "random",
            verify_output: v.switch("--verify-output"),
            timeout: v.float("--request-timeout-sec"),
            stream: !v.switch("--no-stream"),
            send_conversation_id: v.switch("--send-conversation-id"),
            excel_output: v.switch("--excel-output"),
            stats_json_output: path("--stats-json-output"),
            verbose: v.switch("--verbose"),
            print_content: v.switch("--print-content"),
            exact_lengths: v.switch("--exact-lengths"),
            dry_run: v.switch("--dry-run"),
            save_workload: path("--save-workload"),
            live: LiveArgs::from(v),
        };
        args.check()?;
        Ok(args)
    }

    fn check(&self) -> Result<(), Refusal> {
        let refused = |flag, value: String, allowed| Err(Refusal::OutOfRange { flag, value, allowed });
        let (least, most) = (self.limit_min_tokens, self.limit_max_tokens);
        if (least > 0 || most > 0) && (least < 1 || most < 1 || least > most) {
            return refused(
                "--limit-min-tokens",
                least.to_string(),
                "both limits of 1 or more, the least at most the most",
            );
        }
        if self.timeout.is_nan() || self.timeout <= 0.0 {
            return refused("--request-timeout-sec", self.timeout.to_string(), "more than 0");
        }
        if self.request_rate.is_nan() || self.request_rate < 0.0 {
            return refused("--request-rate", self.request_rate.to_string(), "0 or more");
        }
        let clients = self.num_clients as i64;
        if self.max_active.is_some_and(|active| active < clients) {
            return refused(
                "--max-active-conversations",
                self.max_active.unwrap_or(0).to_string(),
                "at least one per client",
            );
        }
        if self.max_num_requests.is_some_and(|requests| requests < clients) {
            return refused(
                "--max-num-requests",
                self.max_num_requests.unwrap_or(0).to_string(),
                "at least one per client",
            );
        }
        Ok(())
    }
}

fn within(flag: &'static str, value: i64, least: i64, allowed: &'static str) -> Result<i64, Refusal> {
    let good = (least..1 << 32).contains(&value);
    if good { Ok(value) } else { Err(Refusal::OutOfRange { flag, value: value.to_string(), allowed }) }
}

/// The flag, or the variable that stands for it.
fn retries(v: &Values) -> Result<i64, Refusal> {
    const NAME: &str = "MULTITURN_BENCH_MAX_RETRIES";
    match (v.maybe_int("--max-retries"), std::env::var(NAME)) {
        (Some(retries), _) => Ok(retries),
        (None, Err(_)) => Ok(0),
        (None, Ok(text)) => text.trim().parse().map_err(|_| Refusal::OutOfRange {
            flag: "MULTITURN_BENCH_MAX_RETRIES",
            value: text,
            allowed: "a whole number",
        }),
    }
}

/// Shares in percent, ascending.
fn percentages(text: &str, step: bool) -> Result<Vec<f64>, Refusal> {
    let wrong = || Refusal::OutOfRange {
        flag: "--warmup-percentages",
        value: text.to_owned(),
        allowed: "shares from 0% up to but not 100%, with commas between",
    };
    let share =
        |part: &str| part.trim().trim_end_matches('%').parse::<f64>().ok().filter(|share| (0.0..100.0).contains(share));
    let mut shares = text.split(',').map(share).collect::<Option<Vec<f64>>>().ok_or_else(wrong)?;
    shares.sort_by(f64::total_cmp);
    Ok(if step { vec![0.0] } else { shares })
}

/// All headers, the key's last: a later one takes the place of an earlier one of its name.
fn combined(mut headers: Vec<(String, String)>, key: Option<String>) -> Headers {
    if let Some(key) = key.filter(|key| !key.is_empty()) {
        headers.push(("Authorization".to_owned(), format!("Bearer {key}")));
    }
    headers.into_iter().collect()
}

/// `Name: value` or `Name=value`; the colon is tried first.
fn header(text: &str) -> Result<(String, String), Refusal> {
    let split = text.split_once(':').or_else(|| text.split_once('='));
    let pair = split.map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()));
    pair.filter(|(name, _)| !name.is_empty()).ok_or_else(|| Refusal::OutOfRange {
        flag: "--header",
        value: "***".to_owned(),
        allowed: "Name: value or Name=value",
    })
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
    fn headers_and_key_go_out_as_the_script_sends_them() {
        for case in golden_json("scenarios/multi-turn/headers.json")["combine"].as_array().unwrap() {
            let pairs = |list: &serde_json::Value| -> Vec<(String, String)> {
                let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
                list.as_array().into_iter().flatten().map(|pair| (text(&pair[0]), text(&pair[1]))).collect()
            };
            let found = combined(pairs(&case["headers"]), case["api_key"].as_str().map(str::to_owned));
            // On the wire a later header replaces an earlier one, whatever its case.
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
