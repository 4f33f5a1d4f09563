//! `tacho backend check`, `init` and `list`.

use std::io::Write;

use anyhow::{Context, ensure};
use tacho_client::backends::{TraceEvent, built_in_file};
use tacho_client::{BackendKind, EndpointSpec, PayloadSpec, Url, proxy_for};
use tacho_core::{Observation, Request, Secret, Timestamp, json::Value};
use tacho_report::style::harmless_line;
use tacho_run::backend_check::{Checked, Missing, check as send};

use super::{serve::plan::base_path, sign_in};
use crate::{args::backend::BackendCheckArgs, exit::Exit};

/// Events shown at the start and at the end.
const FIRST: usize = 4;
const LAST: usize = 3;

pub(super) fn init(text: &&'static str) -> anyhow::Result<Exit> {
    tacho_report::out().write_all(text.as_bytes())?;
    Ok(Exit::Done)
}

pub(super) fn list(_: &()) -> anyhow::Result<Exit> {
    let mut out = tacho_report::out();
    writeln!(out, "{:<28} {:<40} as a file", "backend", "path")?;
    for backend in BackendKind::ALL {
        let file = if built_in_file(backend.name()).is_some() { "yes" } else { "no" };
        writeln!(out, "{:<28} {:<40} {file}", backend.name(), backend.default_endpoint())?;
    }
    Ok(Exit::Done)
}

pub(super) fn check(args: &BackendCheckArgs) -> anyhow::Result<Exit> {
    let payload = PayloadSpec {
        model: args.model.clone().unwrap_or_default(),
        extra_body: extra_body(args)?,
        ..PayloadSpec::default()
    };
    let request = Request::text(args.prompt.as_str(), 0, args.max_tokens);
    let checked = send(endpoint(args)?, base_path(&args.base_url), payload, request)?;
    let mut lines = vec![format!("backend {}", args.backend.name())];
    lines.extend(request_lines(&checked));
    lines.extend(response_lines(&checked));
    lines.extend(event_lines(&checked, args.all_events));
    lines.extend(selector_lines(&checked));
    lines.extend(result_lines(&checked));
    super::say(&lines.iter().map(|line| harmless_line(line)).collect::<Vec<_>>())?;
    let fails = !checked.row.outcome.is_complete() || !checked.missing().is_empty();
    Ok(if fails { Exit::Failed } else { Exit::Done })
}

fn extra_body(args: &BackendCheckArgs) -> anyhow::Result<tacho_core::json::Dict> {
    match &args.extra_body {
        None => Ok(tacho_core::json::Dict::new()),
        Some(Value::Dict(extra)) => Ok(extra.clone()),
        Some(_) => anyhow::bail!("--extra-body must be a JSON object"),
    }
}

fn endpoint(args: &BackendCheckArgs) -> anyhow::Result<EndpointSpec> {
    let base = args.base_url.trim_end_matches('/');
    let url = Url::parse(&format!("{base}{}", args.backend.default_endpoint()))?;
    let variable = |name: &str| std::env::var(name).ok();
    let key = || variable("OPENAI_API_KEY").filter(|key| !key.is_empty()).map(Secret::new);
    let mut endpoint = EndpointSpec {
        proxy: proxy_for(&url, &variable)?,
        api_key: args.api_key.clone().or_else(key),
        insecure: args.insecure,
        timeout: args.timeout,
        connect_timeout: args.timeout,
        ..EndpointSpec::new(url, args.backend)
    };
    for header in args.header.iter().flatten() {
        let (name, value) = header.split_once('=').context("--header takes KEY=VALUE")?;
        ensure!(!name.is_empty(), "--header takes KEY=VALUE");
        endpoint.headers.set(name, value);
    }
    sign_in::add(&args.sign_in, &mut endpoint)?;
    Ok(endpoint)
}

fn request_lines(checked: &Checked) -> Vec<String> {
    let mut lines = vec![String::new(), "request".to_owned()];
    let text = checked.request.lines().map(|line| line.trim_end()).filter(|line| !line.is_empty());
    lines.extend(text.map(|line| format!("  {line}")));
    lines
}

fn response_lines(checked: &Checked) -> Vec<String> {
    let status = checked.status.map_or_else(|| "  none".to_owned(), |status| format!("  HTTP {status}"));
    let mut lines = vec![String::new(), "response".to_owned(), status];
    lines.extend(checked.headers.iter().map(|(name, value)| format!("  {name}: {value}")));
    lines
}

fn event_lines(checked: &Checked, all: bool) -> Vec<String> {
    let (events, sent) = (&checked.events, checked.row.sent);
    let mut lines = vec![String::new(), format!("events ({})", events.len())];
    for (at, event) in events.iter().enumerate() {
        let hidden = !all && at >= FIRST && at + LAST < events.len();
        if !hidden {
            lines.extend(one_event(checked, event, sent));
        } else if at == FIRST {
            lines.push(format!("  … {} more: --all-events shows them", events.len() - FIRST - LAST));
        }
    }
    lines
}

fn one_event(checked: &Checked, event: &TraceEvent, sent: Timestamp) -> Vec<String> {
    let what = match (event.is_token, event.is_end) {
        (_, true) => "end",
        (true, false) => "token",
        (false, false) => "other",
    };
    let mut lines = vec![format!("  {:>9.1} ms  {what:<5}  {}", ms(sent, event.timestamp), event.data)];
    for (number, value) in &event.found {
        let (field, path) = &checked.selectors[*number];
        if *field != "token_event" {
            lines.push(format!("      {field:<16} {path} = {value}"));
        }
    }
    lines
}

fn selector_lines(checked: &Checked) -> Vec<String> {
    let mut lines = vec![String::new(), "selectors".to_owned()];
    for (number, (field, path)) in checked.selectors.iter().enumerate() {
        let found = match checked.count(number) {
            0 => "found nothing".to_owned(),
            1 => "found in 1 event".to_owned(),
            count => format!("found in {count} events"),
        };
        lines.push(format!("  {field:<16} {path:<52} {found}"));
    }
    for end in checked.end_events {
        let is_found = checked.events.iter().any(|event| event.is_end && event.data == *end);
        lines.push(format!(
            "  {:<16} {end:<52} {}",
            "done",
            if is_found { "found in 1 event" } else { "found nothing" }
        ));
    }
    lines
}

fn result_lines(checked: &Checked) -> Vec<String> {
    let row = &checked.row;
    let outcome = match row.outcome.failure() {
        None => "complete".to_owned(),
        Some(failure) => format!("failed: {}", failure.message),
    };
    let mut lines = vec![String::new(), "result".to_owned(), format!("  outcome        {outcome}")];
    lines.push(format!("  text           {:?}", String::from_utf8_lossy(&row.text)));
    lines.extend(time_lines(row));
    lines.push(format!("  output tokens  {}", tokens(row.usage.completion_tokens, row.chunks.len())));
    lines.push(format!("  prompt tokens  {}", tokens(row.usage.prompt_tokens, 0)));
    for missing in checked.missing() {
        lines.push(format!(
            "  not found      {}",
            match missing {
                Missing::Content => "the text: check response.text and response.framing in the file",
                Missing::End => "the end of the response: check response.done in the file",
            }
        ));
    }
    lines
}

fn time_lines(row: &Observation) -> Vec<String> {
    let end = format!("  E2EL           {:.1} ms", ms(row.sent, row.done));
    let (Some(&first), Some(&last)) = (row.chunks.first(), row.chunks.last()) else { return vec![end] };
    let mut lines = vec![format!("  TTFT           {:.1} ms", ms(row.sent, first))];
    let gaps = row.chunks.len() - 1;
    if gaps > 0 {
        lines.push(format!("  ITL            {:.1} ms (mean of {gaps})", ms(first, last) / gaps as f64));
    }
    lines.push(end);
    lines
}

fn tokens(reported: Option<u64>, events: usize) -> String {
    match (reported, events) {
        (Some(count), _) => count.to_string(),
        (None, 0) => "not reported: a run counts them with its tokenizer".to_owned(),
        (None, events) => format!("not reported ({events} token events): a run counts them with its tokenizer"),
    }
}

fn ms(from: Timestamp, to: Timestamp) -> f64 {
    to.since(from).as_secs_f64() * 1e3
}
