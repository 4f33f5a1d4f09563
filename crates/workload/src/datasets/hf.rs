//! `hf`: datasets of the Hugging Face Hub. The ID determines how rows become requests; the source and order of rows are
//! the same for all but BFCL.

mod asr;
mod bfcl;
mod conversation;
mod loader;
mod prompts;
mod text;
mod vision;

use std::path::PathBuf;

use tacho_core::Request;
use tacho_text::{HubCache, Tokenizer};

use crate::sources::layout::{Wanted, data_files};
use crate::sources::order::{Order, StreamOrder, positions};
use crate::sources::table::{Row, Table};
use crate::{
    Error, hub::Needed, parallel, requests::carrier::Carrier, sampling::chat::Chat, sampling::context::SampleContext,
    sampling::sampled::Sampled, sampling::selection::Selection, sources::hub::dataset_directory,
};
use loader::Loader;

#[derive(Debug, Clone, PartialEq)]
pub struct HfSpec {
    /// The Hub ID, or a local directory.
    pub path: String,
    /// The Hub ID of a local directory.
    pub name: Option<String>,
    pub subset: Option<String>,
    pub split: Option<String>,
    pub output_len: Option<i64>,
    pub selection: Selection,
    /// Whether rows are shuffled through a buffer, as in streaming mode, or all at once.
    pub stream: bool,
    pub stream_order: StreamOrder,
    pub chat_template: bool,
    /// Whether prompts become chat messages that contain their media.
    pub multimodal_chat: bool,
    /// The protocol, which must support the dataset's media.
    pub carrier: Carrier,
    /// Minimum and maximum edit distance of Blazedit.
    pub blazedit_distance: (f64, f64),
    /// Minimum and maximum audio duration, in seconds.
    pub audio_seconds: (f64, f64),
    /// Categories of BFCL; `None` for its default.
    pub bfcl_categories: Option<String>,
    pub cache: HubCache,
}

/// Settings of a dataset without a loader of its own: prompts are the texts of one column.
#[derive(Debug, Clone, PartialEq)]
pub struct HfTextSpec {
    pub hf: HfSpec,
    /// The column. Nested members and items are separated by dots: `conversations.0.value`.
    pub column: String,
}

struct Context<'c> {
    spec: &'c HfSpec,
    /// The column of prompts, if named.
    column: Option<&'c str>,
    tokenizer: &'c Tokenizer,
    name: &'c str,
    directory: PathBuf,
    chat: Option<Chat<'c>>,
}

impl Context<'_> {
    fn output_len(&self, default: i64) -> i64 {
        self.spec.output_len.unwrap_or(default)
    }

    /// A plain text request, with the chat template applied if there is one.
    fn text(&self, prompt: String, output_len: i64) -> Result<Request, Error> {
        let prompt = self.chat.as_ref().map_or(Ok(prompt.clone()), |chat| chat.user(&prompt))?;
        let len = self.tokenizer.count(&prompt, true) as u64;
        Ok(Request::text(prompt, len, output_len))
    }
}

/// Generates the requests; only the repetition uses Python's global generator.
pub(crate) fn sample(spec: &HfSpec, context: &mut SampleContext<'_>) -> Result<Sampled, Error> {
    match Loader::choose(spec)? {
        Loader::Bfcl => bfcl::sample(spec, context),
        loader => load(loader, (spec, None), context),
    }
}

/// Generates the requests of a dataset without a loader of its own.
pub(crate) fn sample_text(spec: &HfTextSpec, context: &mut SampleContext<'_>) -> Result<Sampled, Error> {
    load(Loader::Text, (&spec.hf, Some(&spec.column)), context)
}

fn load(
    loader: Loader,
    (spec, column): (&HfSpec, Option<&str>),
    sampling: &mut SampleContext<'_>,
) -> Result<Sampled, Error> {
    let name = spec.name.as_deref().filter(|name| !name.is_empty()).unwrap_or(&spec.path);
    loader.check(name, &spec.carrier)?;
    let tokenizer = sampling.tokenizer_of("hf")?;
    let directory = dataset_directory(&spec.path, &spec.cache)?;
    let split = spec.split.as_deref().filter(|split| !split.is_empty()).or(loader.split());
    let split = split.ok_or_else(|| usage!("this dataset needs --hf-split"))?;
    let files = data_files(&directory, &Wanted { subset: loader.subset(spec), split })?;
    let mut table = Table::open(files)?;
    let seed = u64::try_from(spec.selection.seed).map_err(|_| Error::NegativeSeed { seed: spec.selection.seed })?;
    let order = match (spec.selection.shuffle, spec.stream && name != asr::WITHOUT_STREAM) {
        (false, _) => Order::Plain,
        (true, false) => Order::Permuted { seed },
        (true, true) => Order::Streamed { seed, order: spec.stream_order },
    };
    let positions = positions(&table.lens(), order);
    let chat = match loader {
        _ if positions.is_empty() => None,
        Loader::MlPerf => Some(Chat::new(tokenizer, None)?),
        Loader::Text if !tokenizer.has_chat_template() => None,
        loader if loader.templated() && spec.chat_template => Some(Chat::new(tokenizer, None)?),
        _ => None,
    };
    let context = Context { spec, column, tokenizer, name, directory, chat };
    let wanted = loader.wanted(&spec.selection);
    let mut requests: Vec<Request> = Vec::new();
    let (mut rest, mut skipped) = (positions.as_slice(), 0);
    while requests.len() < wanted && !rest.is_empty() {
        let missing = wanted - requests.len();
        let (batch, after) = rest.split_at(rest.len().min(missing + missing / 2 + 16));
        let first = positions.len() - rest.len();
        rest = after;
        let rows: Vec<Row> = batch.iter().map(|&position| table.row(position)).collect::<Result<_, _>>()?;
        let made = parallel::try_map(&rows, |(_, row)| loader.request(&context, row))?;
        for (at, request) in made.into_iter().enumerate() {
            let Some(request) = request else {
                skipped += 1;
                continue;
            };
            // Blazedit counts the rows that it skips.
            let index = if loader == Loader::Blazedit { first + at } else { requests.len() };
            requests.push(Request { id: spec.selection.id(index), ..request });
            sampling.counters.finish_one();
            if requests.len() == wanted {
                break;
            }
        }
    }
    let found = requests.len();
    spec.selection.oversample(&mut requests, spec.selection.wanted().max(found), sampling.globals)?;
    let notices = match loader {
        Loader::Asr if skipped > 0 => vec![format!("{skipped} audio files were skipped: too short or too long")],
        _ => Vec::new(),
    };
    Ok(Sampled { notices, ..Sampled::of(requests) })
}

impl HfSpec {
    /// The files to download before rows are read; `None` if the settings are invalid, which sampling then reports.
    pub(crate) fn needed(&self) -> Option<Needed> {
        self.needed_by(Loader::choose(self).ok()?)
    }

    fn needed_by(&self, loader: Loader) -> Option<Needed> {
        let name = self.name.as_deref().filter(|name| !name.is_empty()).unwrap_or(&self.path);
        match loader {
            Loader::Bfcl => Some(Needed::Named(bfcl::categories(self).map(bfcl::file_name).collect())),
            // Its rows name audio files in the same directory.
            Loader::Asr if name == asr::WITHOUT_STREAM => Some(Needed::Everything),
            _ => {
                let split = self.split.as_deref().filter(|split| !split.is_empty()).or(loader.split())?;
                Some(Needed::Split { subset: loader.subset(self).map(str::to_owned), split: split.to_owned() })
            }
        }
    }
}

impl HfTextSpec {
    /// The files to download before rows are read.
    pub(crate) fn needed(&self) -> Option<Needed> {
        self.hf.needed_by(Loader::Text)
    }
}
