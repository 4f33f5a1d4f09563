//! Notes of a run: sentences, vLLM's where vLLM has one, otherwise tacho's. The report crate decides whether and how
//! they are shown.

use super::search::{Load, SearchNote, SearchRow};
use super::suite::SuiteNote;
use super::sweep::{LevelNote, SweepNote};
use super::tune::TuneNote;

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
    /// The warm-up requests are complete.
    WarmupDone,
    /// The progress of a client of a multi-turn benchmark.
    Client(String),
    /// From a sweep.
    Sweep(SweepNote),
    /// From a test suite.
    Suite(SuiteNote),
    /// From a tuning.
    Tune(TuneNote),
}

impl Note {
    /// The sentence, possibly of several lines.
    pub fn text(&self, layout: &dyn Layout) -> String {
        match self {
            Note::Text(text) | Note::Client(text) => text.clone(),
            Note::WarmupDone => "Warmup run completed.".to_owned(),
            Note::Sweep(note) => note.text(layout),
            Note::Suite(note) => note.text(layout),
            Note::Tune(note) => note.text(layout),
        }
    }
}

macro_rules! is_a_note {
    ($($kind:ident => $variant:ident),*) => {
        $(impl From<$kind> for Note {
            fn from(note: $kind) -> Note {
                Note::$variant(note)
            }
        })*
    };
}

is_a_note!(SweepNote => Sweep, SuiteNote => Suite, TuneNote => Tune, String => Text);

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
