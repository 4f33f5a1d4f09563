//! BFCL: questions that call functions; the request contains the functions' descriptions.

use tacho_core::Request;
use tacho_core::json::{Dict, Value};
use tacho_pyrand::Random;

use super::HfSpec;
use crate::sampling::chat::{Chat, object};
use crate::{
    Error, parallel, requests::carrier::Need, sampling::context::SampleContext, sampling::sampled::Sampled,
    sources::hub::dataset_directory, sources::jsonl::Lines,
};

const CATEGORIES: &str = "simple,live_simple,multiple";
/// Python's type names and their JSON Schema equivalents.
const TYPES: [(&str, &str); 4] = [("dict", "object"), ("float", "number"), ("tuple", "array"), ("any", "string")];

/// A question and the functions it may call.
struct Question {
    messages: Value,
    tools: Value,
}

/// Generates the requests; only the repetition uses Python's global generator.
pub(super) fn sample(spec: &HfSpec, context: &mut SampleContext<'_>) -> Result<Sampled, Error> {
    if !spec.carrier.carries(Need::Tools) {
        let backend = spec.carrier.name;
        return Err(usage!(
            "BFCL needs the backend openai-chat, since its requests carry tool schemas, not {backend:?}"
        ));
    }
    let (tokenizer, counters) = (context.tokenizer_of("hf")?, context.counters);
    let mut rows = rows(spec)?;
    if spec.selection.shuffle {
        Random::new(spec.selection.seed.unsigned_abs()).shuffle(&mut rows);
    }
    let wanted = spec.selection.wanted();
    let output_len = spec.output_len.unwrap_or(512);
    let questions: Vec<Question> = rows.iter().filter_map(question).take(wanted).collect();
    let chat = Chat::with_tools(tokenizer);
    let request = |(index, question): (usize, Question)| {
        let text = chat.as_ref().ok().and_then(|chat| chat.messages(&question.messages, Some(&question.tools)).ok());
        let failed = text.is_none();
        let text = text.unwrap_or_else(|| joined_contents(&question.messages));
        let prompt = question.messages.as_list().and_then(|messages| messages.last()).and_then(content);
        let overrides = object([("tools", question.tools), ("tool_choice", Value::from("auto"))]);
        let len = tokenizer.count(&text, true) as u64;
        counters.finish_one();
        let request = Request {
            id: spec.selection.id(index),
            chat_messages: Some(question.messages.clone()),
            overrides: Some(overrides),
            ..Request::text(prompt.unwrap_or_default(), len, output_len)
        };
        (request, failed)
    };
    let made: Vec<(Request, bool)> = parallel::map_owned(questions, request);
    let failed = made.iter().filter(|(_, failed)| *failed).count();
    let mut requests: Vec<Request> = made.into_iter().map(|(request, _)| request).collect();
    spec.selection.oversample(&mut requests, wanted, context.globals)?;
    let notices = match failed {
        0 => Vec::new(),
        count => vec![format!("{count} prompts were counted without a chat template, which failed on them")],
    };
    Ok(Sampled { notices, ..Sampled::of(requests) })
}

pub(super) fn categories(spec: &HfSpec) -> impl Iterator<Item = &str> {
    let names = spec.bfcl_categories.as_deref().filter(|names| !names.is_empty()).unwrap_or(CATEGORIES);
    names.split(',').map(str::trim).filter(|category| !category.is_empty())
}

pub(super) fn file_name(category: &str) -> String {
    format!("BFCL_v3_{category}.json")
}

/// The rows of the categories, interleaved.
fn rows(spec: &HfSpec) -> Result<Vec<Dict>, Error> {
    let directory = dataset_directory(&spec.path, &spec.cache)?;
    let mut categories = Vec::new();
    for category in self::categories(spec) {
        let file = directory.join(file_name(category));
        if !file.is_file() {
            let missing = format!("{} has no file BFCL_v3_{category}.json", spec.path);
            return Err(usage!("BFCL category '{category}' not found: {missing}; check --bfcl-categories"));
        }
        let lines = Lines::read(&file)?;
        categories.push(lines.rows().iter().map(|row| row.object.clone()).collect::<Vec<Dict>>());
    }
    let longest = categories.iter().map(Vec::len).max().unwrap_or(0);
    let turn = |index: usize| categories.iter().filter_map(move |rows| rows.get(index));
    Ok((0..longest).flat_map(turn).cloned().collect())
}

/// The first turn of a row; an incomplete row is skipped.
fn question(row: &Dict) -> Option<Question> {
    let given = |field: &str| row.get(field).filter(|value| value.truthy());
    let messages = given("question")?.as_list()?.first()?;
    messages.as_list().filter(|messages| !messages.is_empty())?;
    let functions = given("function")?;
    let functions = functions.as_list().unwrap_or(std::slice::from_ref(functions));
    let tool = |function: &Value| object([("type", Value::from("function")), ("function", schema(function))]);
    Some(Question { messages: messages.clone(), tools: Value::List(functions.iter().map(tool).collect()) })
}

/// A copy with JSON Schema's type names.
fn schema(value: &Value) -> Value {
    match value {
        Value::List(items) => Value::List(items.iter().map(schema).collect()),
        Value::Dict(dict) => {
            let entry = |(key, item): (&str, &Value)| {
                let renamed = item.as_str().filter(|_| key == "type");
                let renamed = renamed.and_then(|name| TYPES.iter().find(|(python, _)| *python == name));
                (key.to_owned(), renamed.map_or_else(|| schema(item), |(_, name)| Value::from(*name)))
            };
            Value::Dict(dict.iter().map(entry).collect())
        }
        other => other.clone(),
    }
}

fn content(message: &Value) -> Option<String> {
    message.text("content").map(str::to_owned)
}

fn joined_contents(messages: &Value) -> String {
    let contents = messages.as_list().unwrap_or_default().iter().map(|message| content(message).unwrap_or_default());
    contents.collect::<Vec<String>>().join("\n")
}
