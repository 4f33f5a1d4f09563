//! Structured output: responses constrained by a JSON schema, a grammar, a regular expression or a list of choices.

use std::path::PathBuf;

use tacho_core::json::{self, Value};
use tacho_core::{Content, Request};
use tacho_pyrand::{Generator, Globals, Random};
use tacho_text::{HubCache, Tokenizer};

use super::constraint::{ConstraintField, ConstraintKind};
use super::schema_filter::is_unsupported;
use crate::sampling::chat::{Chat, object};
use crate::sources::layout::{Wanted, data_files};
use crate::{
    Error, datasets::allowed_tokens, hub::Needed, sampling::context::SampleContext, sampling::sampled::Sampled,
    sources::hub::dataset_directory, sources::read_text, sources::table::Table,
};

/// The Hub dataset of `xgrammar_bench`.
const XGRAMMAR: &str = "NousResearch/json-mode-eval";
const XGRAMMAR_SPLIT: &str = "train";

const SCHEMA: &str = r#"{"type": "object", "properties": {"name": {"type": "string"}, "email": {"type": "string"}, "street": {"type": "string"}, "city": {"type": "string"}, "state": {"type": "string"}, "zip": {"type": "string"}, "phone": {"type": "string"}, "website": {"type": "string"}, "company": {"type": "string"}, "age": {"type": "integer"}}, "required": ["name", "email"]}"#;
const SCHEMA_PROMPT: &str = "Generate an example of a brief user profile given the following schema: ";
const GRAMMAR_PROMPT: &str =
    "Generate an SQL query to show the 'username'             and 'email' from the 'users' table.";
const REGEX_PROMPT: &str = "Generate an email address for Alan Turing,             who works in Enigma. End in .com and \
                            new line.                 Example result: alan.turing@enigma.com\n";
const CHOICE_PROMPT: &str = "Classify this sentiment: vLLM is wonderful!";
const REGEX: &str = r"\w+@\w+\.com\n";
const CHOICES: [&str; 2] = ["Positive", "Negative"];
const RULES: [&str; 6] = [
    "root ::= select_statement",
    "select_statement ::= \"SELECT \" column \" from \" table \" where \" condition",
    "column ::= \"col_1 \" | \"col_2 \"",
    "table ::= \"table_1 \" | \"table_2 \"",
    "condition ::= column \"= \" number",
    "number ::= \"1 \" | \"2 \"",
];

tacho_core::named! {
    /// The prompts and constraints, in vLLM's order.
    pub enum StructuredDataset {
        /// One schema for all requests.
        Json = "json",
        /// A different schema for each request, so that none is cached.
        JsonUnique = "json-unique",
        Grammar = "grammar",
        Regex = "regex",
        Choice = "choice",
        /// Questions and schemas from the Hub.
        XGrammarBench = "xgrammar_bench",
    }
}

impl StructuredDataset {
    pub fn kind(self) -> ConstraintKind {
        match self {
            StructuredDataset::Grammar => ConstraintKind::Grammar,
            StructuredDataset::Regex => ConstraintKind::Regex,
            StructuredDataset::Choice => ConstraintKind::Choice,
            _ => ConstraintKind::Json,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Constraint {
    pub value: Value,
    /// The dataset's expected response, if it has one.
    pub expected: Option<String>,
    pub sent: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct StructuredSpec {
    pub dataset: StructuredDataset,
    /// The schema of `json` and `json-unique`; a built-in one if `None`.
    pub schema_path: Option<PathBuf>,
    pub field: ConstraintField,
    /// Seed of prefix, subset and unique names.
    pub seed: u64,
    pub num_prompts: usize,
    pub output_len: i64,
    pub prefix_len: usize,
    /// Fraction of the requests that contain their constraint.
    pub ratio: f64,
    /// Requests per second; infinite to send all at once.
    pub rate: f64,
    /// Burstiness of arrivals (shape of the gamma distribution).
    pub burstiness: f64,
    /// Names of the unique fields; drawn from the seed if empty.
    pub unique_names: Vec<String>,
    pub cache: HubCache,
}

/// A prompt before it becomes a request.
struct Prompt {
    text: Text,
    constraint: Value,
    expected: Option<String>,
}

enum Text {
    Plain(String),
    Messages(Value),
}

/// Generates the requests. Python's generator draws which of them are constrained, then NumPy's the gaps.
pub(crate) fn sample(spec: &StructuredSpec, context: &mut SampleContext<'_>) -> Result<Sampled, Error> {
    let tokenizer = context.tokenizer_of("structured-output")?;
    let (prompts, _) = spec.prompts()?;
    let prefix = spec.prefix(tokenizer)?;
    let chat = match spec.dataset {
        StructuredDataset::XGrammarBench => Some(Chat::new(tokenizer, None)?),
        _ => None,
    };
    let mut requests = Vec::with_capacity(prompts.len());
    for prompt in &prompts {
        let text = match (&prompt.text, &chat) {
            (Text::Plain(text), _) => text.clone(),
            (Text::Messages(messages), Some(chat)) => chat.messages(messages, None)?,
            (Text::Messages(_), None) => String::new(),
        };
        requests.push(spec.request(text, &prefix, tokenizer));
    }
    for at in spec.subset(context.globals)? {
        requests[at].overrides = Some(spec.field.members(spec.dataset.kind(), &prompts[at].constraint));
    }
    if spec.rate.is_finite() {
        let mut due = 0.0;
        for request in &mut requests {
            request.timestamp = Some(due);
            due += context.globals.np.standard_gamma(spec.burstiness) * (1.0 / (spec.rate * spec.burstiness));
        }
    }
    Ok(Sampled::of(requests))
}

impl StructuredSpec {
    /// The Hub files that sampling needs.
    pub(crate) fn needed(&self) -> Option<(&'static str, Needed)> {
        let split = Needed::Split { subset: None, split: XGRAMMAR_SPLIT.to_owned() };
        (self.dataset == StructuredDataset::XGrammarBench).then_some((XGRAMMAR, split))
    }

    /// The constraint on each request's response, whether or not the request contains it.
    pub fn constraints(&self, requests: &[Request]) -> Result<Vec<Constraint>, Error> {
        let (prompts, _) = self.prompts()?;
        let constraint = |(prompt, request): (Prompt, &Request)| Constraint {
            value: self.field.judged(prompt.constraint),
            expected: prompt.expected,
            sent: request.overrides.is_some(),
        };
        Ok(prompts.into_iter().zip(requests).map(constraint).collect())
    }

    /// vLLM's status line about the data.
    pub fn headline(&self, tokenizer: &Tokenizer) -> Result<Option<String>, Error> {
        let count = |text: &str| Some(format!("Input length of the prompt: {} tokens", tokenizer.count(text, true)));
        Ok(match self.dataset {
            StructuredDataset::Grammar => count(GRAMMAR_PROMPT),
            StructuredDataset::Regex => count(REGEX_PROMPT),
            StructuredDataset::Choice => count(CHOICE_PROMPT),
            StructuredDataset::XGrammarBench => {
                let (kept, dropped) = self.prompts()?.1;
                Some(format!(
                    "dataset has {kept} entries after filtering out {dropped} entries with unsupported features"
                ))
            }
            _ => None,
        })
    }

    /// The requests that contain their constraint, in drawing order.
    fn subset(&self, globals: &mut Globals) -> Result<Vec<usize>, Error> {
        let count = (self.num_prompts as f64 * self.ratio).floor();
        if !(0.0..=self.num_prompts as f64).contains(&count) {
            return Err(usage!("--structured-output-ratio is {}: it must be from 0 to 1", self.ratio));
        }
        Ok(globals.py.sample_indices(self.num_prompts, count as usize))
    }

    fn request(&self, text: String, prefix: &[u32], tokenizer: &Tokenizer) -> Request {
        let text = if prefix.is_empty() {
            text
        } else {
            tokenizer.decode(&[prefix, &tokenizer.encode(&text, false)].concat())
        };
        let len = tokenizer.count(&text, true) as u64;
        Request { content: Content::Text(text), ..Request::text("", len, self.output_len) }
    }

    /// Tokens before every prompt.
    fn prefix(&self, tokenizer: &Tokenizer) -> Result<Vec<u32>, Error> {
        if self.prefix_len == 0 {
            return Ok(Vec::new());
        }
        let allowed = allowed_tokens(tokenizer, &tokenizer.special_ids())?;
        let indices = Generator::new(self.seed).integers_vec(0, allowed.len() as i64, self.prefix_len);
        Ok(indices.into_iter().map(|index| allowed[index as usize]).collect())
    }

    /// The prompts, and the numbers of used and skipped entries of the Hub dataset.
    fn prompts(&self) -> Result<(Vec<Prompt>, (usize, usize)), Error> {
        let same = |text: &str, constraint: Value| {
            let prompt =
                || Prompt { text: Text::Plain(text.to_owned()), constraint: constraint.clone(), expected: None };
            (0..self.num_prompts).map(|_| prompt()).collect()
        };
        let prompts = match self.dataset {
            StructuredDataset::Json => {
                let schema = self.schema()?;
                same(&format!("{SCHEMA_PROMPT}{}", json::dumps(&schema)), schema)
            }
            StructuredDataset::JsonUnique => self.unique(&self.schema()?),
            StructuredDataset::Grammar => same(GRAMMAR_PROMPT, Value::from(grammar())),
            StructuredDataset::Regex => same(REGEX_PROMPT, Value::from(REGEX)),
            StructuredDataset::Choice => {
                same(CHOICE_PROMPT, Value::List(CHOICES.into_iter().map(Value::from).collect()))
            }
            StructuredDataset::XGrammarBench => return self.questions(),
        };
        Ok((prompts, (0, 0)))
    }

    fn schema(&self) -> Result<Value, Error> {
        let Some(path) = &self.schema_path else {
            return Ok(json::parse(SCHEMA).expect("the built-in schema is JSON"));
        };
        json::parse(&read_text(path)?).map_err(|source| Error::FileNotJson { path: path.clone(), source })
    }

    /// The schema with one unique field per request.
    fn unique(&self, schema: &Value) -> Vec<Prompt> {
        // Separate from the sampling generators.
        let mut drawn = Random::new(self.seed ^ 0x7461_6368_6f00);
        let mut names = self.unique_names.iter().cloned();
        let prompt = |name: String| {
            let mut schema = schema.as_dict().cloned().unwrap_or_default();
            let mut properties = schema.get("properties").and_then(Value::as_dict).cloned().unwrap_or_default();
            let field = object([
                ("type", Value::from("string")),
                ("description", Value::from("An unique optional field to avoid cached schemas")),
            ]);
            properties.set(format!("__optional_field_{name}"), field);
            schema.set("properties", properties);
            let schema = Value::Dict(schema);
            let text = Text::Plain(format!("{SCHEMA_PROMPT}{}", json::dumps(&schema)));
            Prompt { text, constraint: schema, expected: None }
        };
        (0..self.num_prompts).map(|_| prompt(names.next().unwrap_or_else(|| identifier(&mut drawn)))).collect()
    }

    /// Questions of the Hub dataset, repeated from the start if there are too few.
    fn questions(&self) -> Result<(Vec<Prompt>, (usize, usize)), Error> {
        let directory = dataset_directory(XGRAMMAR, &self.cache)?;
        let files = data_files(&directory, &Wanted { subset: None, split: XGRAMMAR_SPLIT })?;
        let mut table = Table::open(files)?;
        let (mut kept, mut dropped) = (Vec::new(), 0);
        for (file, rows) in table.lens().into_iter().enumerate() {
            for row in 0..rows {
                let row = table.row((file, row))?;
                let schema = row.text("schema")?;
                let parsed = json::parse(schema).ok();
                let parsed = parsed.as_ref().and_then(Value::as_dict);
                if is_unsupported(parsed.ok_or_else(|| row.wrong("schema", "a JSON schema as text"))?) {
                    dropped += 1;
                    continue;
                }
                let messages = row.get("prompt").and_then(|cell| cell.to_json());
                let messages = messages.ok_or_else(|| row.wrong("prompt", "a list of messages"))?;
                kept.push((messages, Value::from(schema), row.text("completion")?.to_owned()));
            }
        }
        if kept.is_empty() {
            return Err(Error::NothingToRepeat { wanted: self.num_prompts });
        }
        let prompt = |(messages, schema, completion): &(Value, Value, String)| Prompt {
            text: Text::Messages(messages.clone()),
            constraint: schema.clone(),
            expected: Some(completion.clone()),
        };
        let prompts = kept.iter().cycle().take(self.num_prompts).map(prompt).collect();
        Ok((prompts, (kept.len(), dropped)))
    }
}

/// A name in the form of a random UUID, reproducible by seed.
fn identifier(random: &mut Random) -> String {
    let mut part = |bits: u32| random.getrandbits(bits);
    let (first, second, third, fourth) = (part(32), part(16), part(12), part(14));
    let last = part(32) << 16 | part(16);
    format!("{first:08x}-{second:04x}-4{third:03x}-{:04x}-{last:012x}", fourth | 0x8000)
}

fn grammar() -> String {
    let rules: Vec<String> = RULES.iter().map(|rule| format!("        {rule}")).collect();
    format!("\n{}\n        ", rules.join("\n\n"))
}
