//! Notes of a run, as types, each with its sentence: vLLM's where vLLM has one, otherwise tacho's. The report crate
//! decides whether and how it is shown.

use super::offline::OfflineNote;
use super::search::{Load, SearchNote, SearchRow};
use super::serve::{ProfilerNote, ServeNote};
use super::suite::SuiteNote;
use super::sweep::{LevelNote, SweepNote};
use super::talk::TalkNote;
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

/// A note of a run.
#[derive(Debug, Clone, PartialEq)]
pub enum Note {
    /// From a server benchmark.
    Serve(ServeNote),
    /// From an offline benchmark.
    Offline(OfflineNote),
    /// From a sweep.
    Sweep(SweepNote),
    /// From a test suite.
    Suite(SuiteNote),
    /// From a tuning.
    Tune(TuneNote),
    /// From a multi-turn benchmark.
    Talk(TalkNote),
    /// Literal text, such as a dataset's remark on its data.
    Text(String),
}

impl Note {
    /// The sentence, possibly of several lines.
    pub fn text(&self, layout: &dyn Layout) -> String {
        match self {
            Note::Serve(note) => note.text(layout),
            Note::Offline(note) => note.text(layout),
            Note::Sweep(note) => note.text(layout),
            Note::Suite(note) => note.text(layout),
            Note::Tune(note) => note.text(layout),
            Note::Talk(note) => note.text(layout),
            Note::Text(text) => text.clone(),
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

is_a_note!(ServeNote => Serve, OfflineNote => Offline, SweepNote => Sweep, SuiteNote => Suite, TuneNote => Tune,
    TalkNote => Talk, String => Text);

impl From<&str> for Note {
    fn from(text: &str) -> Note {
        Note::Text(text.to_owned())
    }
}

impl From<ProfilerNote> for Note {
    fn from(note: ProfilerNote) -> Note {
        Note::Serve(ServeNote::Profiler(note))
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
