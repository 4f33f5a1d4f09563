//! The table of supported datasets: IDs, splits and requirements.

use tacho_core::Request;

use super::{Context, HfSpec, asr, conversation, prompts, text, vision};
use crate::{Error, requests::carrier::Carrier, sampling::selection::Selection, sources::table::Row};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Loader {
    VisionArena,
    Mmvu,
    InstructCoder,
    MtBench,
    HumanEval,
    Gsm8k,
    MultiModalConversation,
    Conversation,
    Aimo,
    Zeta,
    Asr,
    Blazedit,
    MlPerf,
    MmStar,
    Bfcl,
    Text,
}

/// A loader, its IDs, and its default split.
type Entry = (Loader, &'static [&'static str], Option<&'static str>);

/// The first entry that matches the ID is used.
const LOADERS: [Entry; 16] = [
    (Loader::VisionArena, &["lmarena-ai/VisionArena-Chat", "lmarena-ai/vision-arena-bench-v0.1"], Some("train")),
    (Loader::Mmvu, &["yale-nlp/MMVU"], Some("validation")),
    (Loader::InstructCoder, &["likaixin/InstructCoder"], Some("train")),
    (Loader::MtBench, &["philschmid/mt-bench"], Some("train")),
    (Loader::HumanEval, &["openai/openai_humaneval"], Some("test")),
    (Loader::Gsm8k, &["openai/gsm8k"], Some("test")),
    (Loader::MultiModalConversation, &["lmms-lab/LLaVA-OneVision-Data"], None),
    (Loader::Conversation, &["Aeala/ShareGPT_Vicuna_unfiltered"], None),
    (Loader::Aimo, &["AI-MO/aimo-validation-aime", "AI-MO/NuminaMath-1.5", "AI-MO/NuminaMath-CoT"], Some("train")),
    (Loader::Zeta, &["zed-industries/zeta"], Some("train")),
    (Loader::Asr, asr::IDS, Some("train")),
    (Loader::Blazedit, &["vdaita/edit_5k_char", "vdaita/edit_10k_char"], Some("train")),
    (Loader::MlPerf, &["mgoin/mlperf-inference-llama2-data", "mgoin/mlperf-inference-llama3.1-data"], Some("train")),
    (Loader::MmStar, &["Lin-Chen/MMStar"], Some("val")),
    (Loader::Bfcl, &["gorilla-llm/Berkeley-Function-Calling-Leaderboard"], None),
    // Any dataset with a column of texts.
    (Loader::Text, &[], Some("train")),
];

impl Loader {
    pub(super) fn choose(spec: &HfSpec) -> Result<Loader, Error> {
        let known = |(_, ids, _): &&Entry| {
            ids.contains(&spec.path.as_str()) || spec.name.as_deref().is_some_and(|name| ids.contains(&name))
        };
        LOADERS.iter().find(known).map(|(loader, ..)| *loader).ok_or_else(|| unsupported(&spec.path))
    }

    fn entry(self) -> &'static Entry {
        LOADERS.iter().find(|(loader, ..)| *loader == self).expect("every loader is in the table")
    }

    pub(super) fn split(self) -> Option<&'static str> {
        self.entry().2
    }

    /// The configuration; some loaders do not allow a choice.
    pub(super) fn subset(self, spec: &HfSpec) -> Option<&str> {
        let given = spec.subset.as_deref().filter(|subset| !subset.is_empty());
        match self {
            Loader::VisionArena | Loader::Mmvu | Loader::MmStar => None,
            Loader::Gsm8k => given.or(Some("main")),
            _ => given,
        }
    }

    /// Refuses a protocol without media support, and an ID that does not match the rows.
    pub(super) fn check(self, name: &str, carrier: &Carrier) -> Result<(), Error> {
        let media = matches!(self, Loader::VisionArena | Loader::MultiModalConversation | Loader::Asr | Loader::MmStar);
        if media && !carrier.takes_media() {
            return Err(Error::NotMultimodal { backend: carrier.name.to_owned() });
        }
        let by_id = matches!(self, Loader::VisionArena | Loader::Mmvu | Loader::Zeta);
        if by_id && !self.entry().1.contains(&name) { Err(unsupported(name)) } else { Ok(()) }
    }

    /// Whether prompts use the chat template unless it is disabled.
    pub(super) fn templated(self) -> bool {
        use Loader::{Blazedit, Gsm8k, HumanEval, InstructCoder, MtBench, Text};
        matches!(self, InstructCoder | MtBench | HumanEval | Gsm8k | Blazedit | Text)
    }

    /// Number of requests to generate; Zeta checks only after the first.
    pub(super) fn wanted(self, selection: &Selection) -> usize {
        if self == Loader::Zeta { selection.wanted().max(1) } else { selection.wanted() }
    }

    /// The request of a row, unless the dataset skips it.
    pub(super) fn request(self, context: &Context<'_>, row: &Row) -> Result<Option<Request>, Error> {
        match self {
            Loader::VisionArena => vision::arena(context, row).map(Some),
            Loader::Mmvu => vision::mmvu(context, row).map(Some),
            Loader::MmStar => vision::mm_star(context, row).map(Some),
            Loader::InstructCoder => prompts::instruct_coder(context, row).map(Some),
            Loader::MtBench => prompts::mt_bench(context, row).map(Some),
            Loader::HumanEval => context.text(row.text("prompt")?.to_owned(), context.output_len(256)).map(Some),
            Loader::Gsm8k => prompts::gsm8k(context, row).map(Some),
            Loader::MultiModalConversation | Loader::Conversation => conversation::request(context, row),
            Loader::Aimo => conversation::aimo(context, row),
            Loader::Zeta => prompts::zeta(context, row).map(Some),
            Loader::Asr => asr::request(context, row),
            Loader::Blazedit => prompts::blazedit(context, row),
            Loader::MlPerf => prompts::mlperf(context, row),
            Loader::Text => text::request(context, row).map(Some),
            Loader::Bfcl => Ok(None),
        }
    }
}

fn unsupported(path: &str) -> Error {
    usage!(
        "unsupported dataset path: {path}; name its column of prompts with --hf-text-column, or pass the --dataset-path or \
         --hf-name of a known dataset: docs/reference/datasets.md lists them"
    )
}
