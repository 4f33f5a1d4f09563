//! What a run has to say, as types. The sentences, upstream's and ours, are the report's.

use super::offline::OfflineNote;
use super::search::SearchNote;
use super::serve::{ProfilerNote, ServeNote};
use super::suite::SuiteNote;
use super::sweep::{LevelNote, SweepNote};
use super::talk::TalkNote;
use super::tune::TuneNote;

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
