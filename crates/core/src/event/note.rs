//! What a run has to say, as types, each with its sentence: upstream's where upstream has one, ours elsewhere. Whether and
//! how it is shown is the report's.

use super::offline::OfflineNote;
use super::search::{Load, SearchNote, SearchRow};
use super::serve::{ProfilerNote, ServeNote};
use super::suite::SuiteNote;
use super::sweep::{LevelNote, SweepNote};
use super::talk::TalkNote;
use super::tune::TuneNote;

/// How the parts of a sentence are laid out for its reader.
pub trait Layout {
    /// A command.
    fn command(&self, words: &[String]) -> String;
    /// The levels of a search, a row each.
    fn search_table(&self, load: Load, metrics: &[String], rows: &[SearchRow]) -> String;
}

/// Declares a kind of notes: each variant with its sentence, in which its fields and the layout can be used.
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
            /// The sentence; some take several lines.
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

/// Something a run has to say.
#[derive(Debug, Clone, PartialEq)]
pub enum Note {
    /// Of a benchmark of a server.
    Serve(ServeNote),
    /// Of an engine inside this machine.
    Offline(OfflineNote),
    /// Of commands over parameter sets.
    Sweep(SweepNote),
    /// Of a suite of tests.
    Suite(SuiteNote),
    /// Of a tuning.
    Tune(TuneNote),
    /// Of conversations with a server.
    Talk(TalkNote),
    /// Text of another source: of a dataset about its data, or of a command that shows what it was asked.
    Text(String),
}

impl Note {
    /// The sentence; some take several lines.
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
