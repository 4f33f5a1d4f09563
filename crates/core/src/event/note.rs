//! Notes of a run: sentences, vLLM's where vLLM has one, otherwise tacho's. The report crate decides whether and how
//! they are shown.

use super::search::{Load, SearchNote, SearchRow};
use super::sweep::{LevelNote, SweepNote};

/// Formats the parts of a sentence for its reader.
pub trait Layout {
    /// A command.
    fn command(&self, words: &[String]) -> String;
    /// The levels of a search, one row each.
    fn search_table(&self, load: Load, metrics: &[String], rows: &[SearchRow]) -> String;
}

/// Declares a kind of notes: each variant with its sentence, which can use the variant's fields and the layout.
macro_rules! notes {
    (
        $(#[$meta:meta])* $name:ident, $layout:ident;
        $($(#[$about:meta])* $variant:ident $({ $($field:ident: $type:ty),* $(,)? })? $(($inner:ident: $inside:ty))? => $text:expr;)*
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq)]
        #[expect(missing_docs, reason = "the sentence says it")]
        pub enum $name {
            $($(#[$about])* $variant $({ $($field: $type),* })? $(($inside))?,)*
        }

        impl $name {
            /// The sentence, possibly of several lines.
            pub fn text(&self, $layout: &dyn $crate::event::Layout) -> String {
                let _ = $layout;
                match self {
                    $($name::$variant $({ $($field),* })? $(($inner))? => String::from($text),)*
                }
            }
        }
    };
}
pub(super) use notes;

/// A note of a run. Those that a view treats differently are variants.
#[derive(Debug, Clone, PartialEq)]
pub enum Note {
    /// A sentence, possibly of several lines.
    Text(String),
    /// A line that vLLM prints before the requests. A terminal shows `brief` instead, or nothing if it is empty.
    Preamble {
        /// The line.
        vllm: String,
        /// What a terminal shows.
        brief: String,
    },
    /// The warm-up requests are complete.
    WarmupDone,
    /// The progress of a client of a multi-turn benchmark.
    Client(String),
    /// From a sweep.
    Sweep(SweepNote),
    /// A command after its title.
    Command(&'static str, Vec<String>),
}

impl Note {
    /// The sentence, possibly of several lines.
    pub fn text(&self, layout: &dyn Layout) -> String {
        match self {
            Note::Text(text) | Note::Client(text) | Note::Preamble { vllm: text, .. } => text.clone(),
            Note::WarmupDone => "Warmup run completed.".to_owned(),
            Note::Sweep(note) => note.text(layout),
            Note::Command(title, words) => format!("{title}{}", layout.command(words)),
        }
    }
}

impl From<String> for Note {
    fn from(text: String) -> Note {
        Note::Text(text)
    }
}

impl From<SweepNote> for Note {
    fn from(note: SweepNote) -> Note {
        Note::Sweep(note)
    }
}

impl From<&str> for Note {
    fn from(text: &str) -> Note {
        Note::Text(text.to_owned())
    }
}

impl From<SearchNote> for Note {
    fn from(note: SearchNote) -> Note {
        Note::Sweep(SweepNote::Search(note))
    }
}

impl From<LevelNote> for Note {
    fn from(note: LevelNote) -> Note {
        Note::Sweep(SweepNote::Level(note))
    }
}
