//! `tacho multi-turn`: benchmarks multi-turn conversations, measured as in vLLM's script.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tacho_core::bounded::Pause;

use anyhow::{Context, bail};
use tacho_client::{BackendKind, EndpointSpec, Url, control::Caller, proxy_for};
use tacho_core::json::{self, Value};
use tacho_core::{EventSink, RunEvent, event::Note};
use tacho_report::multi_turn::{SEPARATOR, Summary, samples_json};
use tacho_report::style::{harmless, harmless_line};
use tacho_report::{Progress, json::write_text, live::DeferredStderr, tables::describe::Describe};
use tacho_run::multi_turn::{ClientSpec, MultiTurnPlan, MultiTurnResult, run as hold};
use tacho_text::{Tokenizer, TokenizerMode};
use tacho_workload::sessions::{Conversation, GeneratorConfig, generate, read_conversations};

use super::{screen::Screen, sim::load};
use crate::{args::multi_turn::MultiTurnArgs, exit::Exit, interrupt::Interrupt};

pub(crate) fn run(args: &MultiTurnArgs) -> anyhow::Result<Exit> {
    let interrupt = Interrupt::catch()?;
    let tokenizer = load(&args.model, None, TokenizerMode::Auto)?;
    let (conversations, generator) = conversations(args, &tokenizer)?;
    if let Some(path) = &args.save_workload {
        save(path, &conversations)?;
        tracing::info!(conversations = conversations.len(), path = %path.display(), "conversations saved");
    }
    if args.dry_run {
        return Ok(Exit::Done);
    }
    let plan = plan(args, conversations.len())?;
    server_information(&plan.endpoint, base_path(&args.url))?;
    interrupt.measuring();
    tracing::info!(clients = plan.num_clients, conversations = conversations.len(), "holding conversations");
    let screen = Screen::open(&args.live, false, Progress::Shown)?;
    let sink = |event| match event {
        // Standard output has the conversations and the tables.
        RunEvent::Status(Note::Client(lines)) => {
            // A closed pipe must not end the run.
            let _ = lines.lines().try_for_each(|line| writeln!(DeferredStderr, "{}", harmless_line(line)));
        }
        event => screen.event(event),
    };
    let result = hold(&plan, &conversations, &tokenizer, &interrupt.stop, &sink)?;
    screen.close();
    report(args, &result, generator)
}

/// Parameters of generated conversations: names and values.
type Described = Vec<(String, String)>;

/// Returns the conversations of the input file, read or generated, and their generation parameters.
fn conversations(args: &MultiTurnArgs, tokenizer: &Tokenizer) -> anyhow::Result<(Vec<Conversation>, Described)> {
    let path = &args.input_file;
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    match json::parse(&text).with_context(|| format!("{}: not JSON", path.display()))? {
        Value::Dict(dict) => {
            let config = GeneratorConfig::read(path, &dict)?;
            let made = generate(path, &config, tokenizer, args.seed)?;
            if config.print_stats {
                print_made(&made, tokenizer)?;
            }
            Ok((made, described(&config)))
        }
        Value::List(_) => {
            let (read, unanswered) = read_conversations(path)?;
            if unanswered > 0 {
                tracing::warn!("{unanswered} conversations end with a question that has no answer; it is left out");
            }
            print_turns(&read)?;
            Ok((read, Vec::new()))
        }
        _ => bail!("{}: must be a list of conversations, or an object that says how to make them", path.display()),
    }
}

fn described(config: &GeneratorConfig) -> Described {
    let entry = |name: &str, value: String| (name.to_owned(), value);
    vec![
        entry("text_files", config.text_files.join(", ")),
        entry("input_num_turns", config.num_turns.to_string()),
        entry("input_common_prefix_num_tokens", config.common_prefix_num_tokens.to_string()),
        entry("input_prefix_num_tokens", config.prefix_num_tokens.to_string()),
        entry("input_num_tokens", config.input_num_tokens.to_string()),
        entry("output_num_tokens", config.output_num_tokens.to_string()),
    ]
}

fn base_path(url: &str) -> &str {
    let authority = url.split_once("://").map_or(url, |(_, authority)| authority);
    authority.find('/').map_or("", |at| authority[at..].trim_end_matches('/'))
}

fn plan(args: &MultiTurnArgs, count: usize) -> anyhow::Result<MultiTurnPlan> {
    if args.num_clients > count {
        bail!("--num-clients {} is more than the {count} conversations: lower it", args.num_clients);
    }
    let active = args.max_active_conversations.map_or(Ok(args.num_clients), usize::try_from)?;
    if active > count {
        bail!("--max-active-conversations {active} is more than the {count} conversations: lower it");
    }
    let url = Url::parse(&format!("{}/v1/chat/completions", args.url.trim_end_matches('/')))?;
    let mut endpoint = EndpointSpec::new(url.clone(), BackendKind::OpenAiChat);
    endpoint.proxy = proxy_for(&url, &|name| std::env::var(name).ok())?;
    endpoint.headers = args.headers()?;
    super::sign_in::add(&args.sign_in, &mut endpoint)?;
    // As in vLLM's script, long responses get more time: 0.2 s per token.
    let longest = args.limit_max_tokens.max(0) as f64 * 0.2;
    endpoint.timeout = Pause::clamped(args.request_timeout_sec.max(longest.floor()));
    Ok(MultiTurnPlan {
        endpoint,
        model_name: args.served_model_name.clone().unwrap_or_else(|| args.model.clone()),
        seed: args.seed,
        num_clients: args.num_clients,
        client: ClientSpec {
            max_active: active / args.num_clients,
            max_requests: args.max_num_requests.map(usize::try_from).transpose()?.map(|max| max / args.num_clients),
            skip_first: false,
            max_turns: args.max_turns,
            random: args.conversation_sampling == "random",
            request_rate: args.request_rate,
            max_retries: args.retries()?,
        },
        warmup_step: args.warmup_step,
        early_stop: !args.no_early_stop,
        limit_max_tokens: args.limit_max_tokens,
        exact_lengths: args.exact_lengths,
        stream: !args.no_stream,
        send_conversation_id: args.send_conversation_id,
        verify_output: args.verify_output,
        print_content: args.print_content,
        verbose: args.verbose,
    })
}

/// Queries and logs the server's version and models. Responses other than 200 are ignored.
fn server_information(endpoint: &EndpointSpec, base_path: &str) -> anyhow::Result<()> {
    let caller = Caller::new(endpoint, base_path, Duration::from_secs(30))?;
    for path in ["/version", "/v1/models"] {
        let response = caller.get(path, caller.user_headers())?;
        let text = response.text();
        tracing::info!(path, status = response.status, response = harmless(text.trim()), "server information");
    }
    Ok(())
}

fn report(args: &MultiTurnArgs, result: &MultiTurnResult, generator: Described) -> anyhow::Result<Exit> {
    if let Some(path) = &args.stats_json_output {
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory)
                .with_context(|| format!("cannot create the directory {}", directory.display()))?;
        }
        write_text(path, &samples_json(&result.samples))?;
    }
    if let Some(path) = &args.output_file {
        save(path, &result.finished)?;
    }
    let summary = Summary {
        parameters: parameters(args, result),
        generator,
        warmup_percentages: args.percentages()?,
        warmup_runtime_sec: result.warmup_runtime_sec,
        verbose: args.verbose,
    };
    let mut text = String::new();
    if result.samples.is_empty() {
        text += "No samples to process\n";
    } else {
        text += &summary.text(&result.samples);
        if args.excel_output {
            let timestamp = jiff::Zoned::now().strftime("%d-%m-%Y_%H-%M-%S").to_string();
            let path = PathBuf::from(format!("statistics_{}_clients__{timestamp}.xlsx", args.num_clients));
            summary.write_workbook(&path, &result.samples)?;
            tracing::info!(path = %path.display(), "workbook written");
        }
    }
    text += &outcome(result);
    tacho_report::out().write_all(text.as_bytes())?;
    match result {
        _ if result.interrupted => Ok(Exit::Interrupted),
        _ if result.samples.is_empty() => {
            let first = result.failures.first().map(|(reason, _)| format!("; the first failure: {reason}"));
            bail!("no exchange succeeded{}", first.unwrap_or_default())
        }
        _ => Ok(Exit::Done),
    }
}

/// How conversations ended, which vLLM's script does not report.
fn outcome(result: &MultiTurnResult) -> String {
    let failed: usize = result.failures.iter().map(|(_, count)| count).sum();
    let lost = result.num_conversations - result.finished.len();
    let mut text = format!(
        "conversations_finished = {}\nconversations_unfinished = {lost} ({} given up when their client ended)\n\
         exchanges_failed = {failed}\nexchanges_retried = {}\n",
        result.finished.len(),
        result.abandoned,
        result.retries
    );
    for (reason, count) in &result.failures {
        text += &harmless(&format!("  {count} x {reason}\n"));
    }
    text
}

fn parameters(args: &MultiTurnArgs, result: &MultiTurnResult) -> Vec<(String, Value)> {
    let mut parameters = tacho_core::dict! {
        "model": args.model.as_str(),
        "num_clients": args.num_clients,
        "num_conversations": result.num_conversations,
        "active_conversations": args.max_active_conversations,
        "seed": i64::from(args.seed),
    };
    if args.limit_min_tokens > 0 {
        parameters.set("min_tokens", args.limit_min_tokens);
    }
    if args.limit_max_tokens > 0 {
        parameters.set("max_tokens", args.limit_max_tokens);
    }
    parameters.iter().map(|(name, value)| (name.to_owned(), value.clone())).collect()
}

fn save(path: &Path, conversations: &[Conversation]) -> anyhow::Result<()> {
    let list: Vec<Value> = conversations.iter().map(Conversation::to_json).collect();
    let text = json::dumps_indented(&list.into(), 4);
    Ok(write_text(path, &text)?)
}

fn print_turns(conversations: &[Conversation]) -> io::Result<()> {
    let mut table = Describe::new(&[25.0, 50.0, 75.0, 90.0, 99.0, 99.9, 99.99]);
    table.row("num_turns", &conversations.iter().map(|one| one.messages.len() as f64).collect::<Vec<f64>>());
    let table = table.text(6);
    writeln!(tacho_report::out(), "{SEPARATOR}\nConversations statistics:\n{SEPARATOR}\n{table}\n{SEPARATOR}")
}

fn print_made(conversations: &[Conversation], tokenizer: &Tokenizer) -> io::Result<()> {
    let counts: Vec<Vec<f64>> = conversations
        .iter()
        .map(|one| one.messages.iter().map(|text| tokenizer.encode(text, true).len() as f64).collect())
        .collect();
    let mean = |from: usize| {
        let of = move |tokens: &Vec<f64>| {
            let own: Vec<f64> = tokens.iter().skip(from).step_by(2).copied().collect();
            own.iter().sum::<f64>() / own.len() as f64
        };
        counts.iter().map(of).collect::<Vec<f64>>()
    };
    const PERCENTILES: &[f64] = &[25.0, 50.0, 75.0, 90.0, 99.0];
    let mut first = Describe::new(PERCENTILES);
    first.row("conversation_turns", &counts.iter().map(|tokens| tokens.len() as f64).collect::<Vec<f64>>());
    first.row("user_tokens", &mean(0));
    first.row("assistant_tokens", &mean(1));
    let sent =
        |tokens: &Vec<f64>| (0..tokens.len()).step_by(2).map(|at| tokens[..=at].iter().sum()).collect::<Vec<f64>>();
    let mut second = Describe::new(PERCENTILES);
    second.row("request_tokens", &counts.iter().flat_map(sent).collect::<Vec<f64>>());
    let (first, second) = (first.text(6), second.text(6));
    writeln!(
        tacho_report::out(),
        "\nCollecting statistics...\n{SEPARATOR}\nConversations statistics:\n{SEPARATOR}\n{first}\n{SEPARATOR}\nRequest statistics:\n{SEPARATOR}\n\
         {second}\n{SEPARATOR}"
    )
}
