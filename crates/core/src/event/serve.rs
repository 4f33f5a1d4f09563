//! Notes of a benchmark of a server, and of its profiler.

use std::path::PathBuf;

/// Notes of a benchmark of a server.
#[derive(Debug, Clone, PartialEq)]
pub enum ServeNote {
    /// The model is asked for because none was named.
    ModelUnknown,
    /// The server's first model.
    ModelFound {
        /// What requests name.
        name: String,
        /// What the tokenizer goes by.
        id: String,
    },
    /// The Hub did not answer and an older copy is used.
    CacheUsed {
        /// Why.
        reason: String,
    },
    /// Requests were left out because they are too long for the model.
    LeftOut {
        /// How many.
        left_out: usize,
        /// Most tokens of a prompt and its answer.
        most: u64,
    },
    /// The server does not count tokens, so that prompts stay as they are.
    TokenizeUnavailable,
    /// The server counts otherwise, so that prompts are cut again.
    TokenizerMismatch {
        /// Its count of the first prompt.
        server: u64,
        /// Ours.
        expected: u64,
    },
    /// Upstream's warning that sampling is left to the server.
    TemperatureUnset,
    /// The test request is about to be sent.
    TestRun,
    /// The server is waited for.
    Awaited {
        /// So long at most.
        seconds: u64,
    },
    /// It did not answer the test request well.
    NotReady {
        /// What it said.
        reason: String,
    },
    /// No test request is sent.
    TestSkipped,
    /// The test request was answered.
    TestDone,
    /// Warm-ups are sent.
    WarmingUp {
        /// How many.
        requests: usize,
    },
    /// Some of them failed.
    WarmupsFailed {
        /// How many.
        failed: usize,
        /// Of how many.
        of: usize,
        /// Why the first did.
        first: String,
    },
    /// All of them are over.
    WarmupDone,
    /// The sessions that will be held.
    Sessions {
        /// Their file.
        file: String,
        /// What it was read as.
        format: &'static str,
        /// What the reading assumes, such as units.
        options: String,
        /// How many sessions.
        sessions: usize,
        /// How many requests.
        requests: usize,
    },
    /// Sessions are held before the measurement.
    WarmupSessions {
        /// How many.
        sessions: usize,
    },
    /// The server's metrics page could not be read.
    NoMetrics {
        /// Why.
        reason: String,
    },
    /// The server forgot what it had cached.
    CachesReset,
    /// It would not, so that later runs may find their prompts there.
    CachesKept,
    /// There were no more requests although there was time for them.
    NoMoreRequests {
        /// Why.
        reason: String,
    },
    /// The rows of the run are no longer logged.
    LogIncomplete {
        /// Where they were.
        directory: PathBuf,
        /// Why.
        reason: String,
    },
    /// An earlier run is gone on with.
    Resumed {
        /// Requests that have their answer.
        answered: usize,
        /// Requests that are sent now.
        left: usize,
    },
    /// The measured requests come next.
    MainRun,
    /// About the server's profiler.
    Profiler(ProfilerNote),
    /// Requests go out at times that the data gives.
    SelfTimed,
    /// Requests go out at this rate.
    RequestRate(f64),
    /// Requests go out at a rate that grows.
    RampUp {
        /// Along which curve.
        strategy: &'static str,
        /// Requests per second at first.
        start_rps: u32,
        /// Requests per second at last.
        end_rps: u32,
    },
    /// The shape of the gaps.
    Burstiness(f64),
    /// The most requests in flight.
    Concurrency(Option<usize>),
    /// Probes per second.
    ProbeRate(f64),
}

/// Notes about the server's profiler.
#[derive(Debug, Clone, PartialEq)]
pub enum ProfilerNote {
    /// It is asked to start.
    Starting,
    /// It did.
    Started,
    /// It is asked to stop.
    Stopping,
    /// It did.
    Stopped,
    /// There is none.
    Missing,
    /// The server never served that many requests at once, so that there is no profile.
    NeverBusy {
        /// So many.
        running: u64,
    },
    /// It would not.
    Refused {
        /// The call.
        path: &'static str,
        /// The answer's status.
        status: u16,
    },
    /// It cannot be asked.
    Unreachable {
        /// Why.
        reason: String,
    },
}
