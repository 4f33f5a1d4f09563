//! Messages between ranks. All ranks have the same version of the program, which rank 0 checks first.

use tacho_core::json::{Json, Value, parse};

use crate::clock::{ClockFit, WallClock};

tacho_core::named! {
    /// Rank 0's directive to a rank.
    #[derive(Default)]
    pub enum Directive, "a directive" {
        #[default]
        Continue = "continue",
        /// A stop rule has ended the run.
        Ended = "ended",
        /// A signal has interrupted the run.
        Interrupted = "interrupted",
    }
}

tacho_core::record! {
    /// The first message of a rank.
    #[derive(Debug)]
    pub(crate) struct Hello {
        pub(crate) rank: usize,
        pub(crate) ranks: usize,
        /// The index of the run in a sweep.
        pub(crate) run: u64 = 0,
        /// A hash of the requests and their times.
        pub(crate) hash: String,
        pub(crate) version: String,
        pub(crate) machine: String = String::new(),
    }
}

tacho_core::record! {
    /// A rank is ready for the start.
    #[derive(Debug)]
    pub(crate) struct Ready {
        pub(crate) clock: Option<ClockFit>,
        pub(crate) log: Option<String>,
        /// Whether it was interrupted.
        pub(crate) stopping: bool = false,
    }
}

tacho_core::record! {
    /// A rank has sent all its rows.
    #[derive(Debug)]
    pub(crate) struct Done {
        pub(crate) clock: ClockFit,
        pub(crate) wall_clock: Option<WallClock>,
        /// Statistics of the rank.
        pub(crate) closing: Value,
    }
}

tacho_core::record! {
    /// A response of rank 0. Which fields it has depends on the call.
    #[derive(Debug, Default)]
    pub(crate) struct Reply {
        /// Rank 0's clock, in nanoseconds.
        pub(crate) now: Option<u64> = None,
        /// The name of rank 0's log.
        pub(crate) log: Option<String> = None,
        /// The start, by rank 0's clock and by its wall clock.
        pub(crate) start: Option<(u64, i64)> = None,
        pub(crate) stop: Directive = Directive::Continue,
        /// Whether the rank may exit, or continue with the next run.
        pub(crate) over: bool = false,
        /// Whether rank 0 still receives rows.
        pub(crate) running: bool = false,
        /// The next run of a sweep: its index and its command.
        pub(crate) next: Option<(u64, Vec<String>)> = None,
    }
}

pub(crate) fn read<T: Json>(body: &[u8]) -> Result<T, String> {
    let text = std::str::from_utf8(body).map_err(|error| error.to_string())?;
    T::from_json(&parse(text).map_err(|error| error.to_string())?).map_err(|wrong| wrong.to_string())
}
