//! What a run has to say, as types. The sentences, upstream's and ours, are the report's.

use std::path::PathBuf;

use super::search::SearchNote;
use crate::json::{Dict, Value};

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
    /// Words of somebody else: of a dataset about its data, or of a command that shows what it was asked.
    Told(String),
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
    String => Told);

impl From<&str> for Note {
    fn from(text: &str) -> Note {
        Note::Told(text.to_owned())
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

/// Notes of a benchmark of a server.
#[derive(Debug, Clone, PartialEq)]
pub enum ServeNote {
    /// The model is asked for because nobody named it.
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
    /// The server counts otherwise, so that prompts are cut anew.
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
    LogGivenUp {
        /// Where they were.
        folder: PathBuf,
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
    /// The most requests under way.
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
    /// The server never served so many requests at once, so that there is no profile.
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

/// Notes of an engine inside this machine.
#[derive(Debug, Clone, PartialEq)]
pub enum OfflineNote {
    /// Unmeasured iterations come first.
    WarmingUp,
    /// A profile is made.
    Profiling {
        /// By which profiler.
        profiler: String,
        /// Where it is written.
        folder: String,
    },
    /// The engine starts inside its process, for the sake of its times.
    OneProcess,
    /// Starts with empty caches come next.
    ColdStarts,
    /// Starts that fill the caches come next.
    FillingStarts,
    /// Starts with full caches come next.
    WarmStarts,
    /// Requests with media are processed.
    Processing {
        /// How many.
        requests: u64,
        /// Whether they count.
        measured: bool,
    },
    /// The engine collected no times of stages.
    NoStageTimes,
    /// It gave no latencies by request.
    AverageLatencies,
}

/// A command as it is run.
pub type Command = Vec<String>;

/// Notes of commands over parameter sets.
#[derive(Debug, Clone, PartialEq)]
pub enum SweepNote {
    /// A server's turn begins.
    ServerBegins {
        /// Its parameters.
        overrides: Dict,
        /// What starts it.
        command: Command,
    },
    /// How much it holds, as it says itself.
    Capacity {
        /// Tokens of its KV cache.
        tokens: u64,
        /// Tokens of a request of the greatest length.
        request: u64,
        /// How many of those fit at once.
        requests: f64,
    },
    /// It is over.
    ServerEnds,
    /// It could not be measured.
    ServerFailed {
        /// Its parameters' name.
        name: String,
        /// Why.
        failure: String,
    },
    /// More about the failure is there.
    FailureDetails(PathBuf),
    /// What it said is there.
    ServerLog(PathBuf),
    /// A benchmark's turn begins.
    BenchBegins {
        /// Its parameters, each with what they are called.
        overrides: Vec<(&'static str, Dict)>,
        /// Which run of it this is.
        number: i64,
        /// What is run.
        command: Command,
        /// Where the result goes.
        output: PathBuf,
    },
    /// Its result is there already.
    ResultFound,
    /// It is over.
    BenchEnds,
    /// It failed.
    BenchFailed {
        /// Which run of it.
        number: i64,
        /// Why.
        failure: String,
    },
    /// None of a combination's runs succeeded.
    NoRuns,
    /// Two sets do not belong together.
    Unlinked {
        /// The server's.
        serve: String,
        /// The client's.
        bench: String,
        /// What keeps them apart.
        link: String,
    },
    /// The server forgets what it has cached.
    ResettingCaches {
        /// Where it is.
        address: String,
    },
    /// Parameters that the benchmark does not have.
    Unsupported {
        /// Of which set.
        set: String,
        /// Which.
        keys: String,
    },
    /// Where everything is, or would be.
    Place {
        /// The folder.
        folder: PathBuf,
        /// Whether nothing was run.
        dry_run: bool,
    },
    /// About levels of load.
    Level(LevelNote),
    /// Of a search among them.
    Search(SearchNote),
}

/// Notes of a walk over levels of load.
#[derive(Debug, Clone, PartialEq)]
pub enum LevelNote {
    /// A pair's turn begins.
    Begins {
        /// `WL` or `SLA`.
        label: &'static str,
        /// The server's parameters.
        serve: String,
        /// The client's.
        bench: String,
        /// How many levels.
        iterations: usize,
        /// How many prompts.
        size: i64,
    },
    /// Only the ends are shown.
    Omitted {
        /// As above.
        label: &'static str,
    },
    /// The loads of one request at a time and of all at once.
    Ends {
        /// What is varied.
        key: &'static str,
        /// One at a time.
        serial: f64,
        /// All at once.
        batch: f64,
    },
    /// A level's turn begins.
    Exploring {
        /// What is varied.
        key: &'static str,
        /// The level.
        value: Value,
    },
    /// The ends could not be found.
    NoEnds {
        /// As above.
        label: &'static str,
    },
    /// The pair's turn is over.
    Over {
        /// As above.
        label: &'static str,
    },
}

/// Notes of a suite of tests.
#[derive(Debug, Clone, PartialEq)]
pub enum SuiteNote {
    /// A test is left out.
    Skipped {
        /// Its name.
        name: String,
        /// Why.
        reason: String,
    },
    /// A case's turn begins.
    Case {
        /// Its name.
        name: String,
    },
    /// What is run for it.
    Runs {
        /// `Server`, `Client` or `Benchmark`.
        who: &'static str,
        /// The command line.
        line: String,
    },
    /// Its result is there already.
    Found {
        /// Where.
        output: PathBuf,
    },
    /// It failed.
    Failed {
        /// Its name.
        name: String,
        /// Why.
        failure: String,
    },
    /// How far the limits are kept.
    Limits {
        /// The test.
        name: String,
        /// The rate.
        rate: String,
        /// The largest level that keeps them.
        last_pass: Option<u64>,
        /// The smallest that breaks them.
        first_fail: Option<u64>,
    },
}

/// Notes of a tuning.
#[derive(Debug, Clone, PartialEq)]
pub enum TuneNote {
    /// The 99th percentile rests on few prompts.
    FewPrompts {
        /// How many there are.
        prompts: u64,
    },
    /// What would be run.
    Would {
        /// `Server` or `Benchmark`.
        who: &'static str,
        /// The command.
        command: Command,
    },
    /// Where results will be.
    Place {
        /// The folder.
        folder: PathBuf,
    },
    /// Settings' turn begins.
    Candidate {
        /// Which.
        at: usize,
        /// Of how many.
        of: u64,
        /// The settings.
        title: String,
    },
    /// What they came to, as the result file has it.
    Measured {
        /// The line.
        line: String,
    },
    /// They failed.
    Failed {
        /// The settings.
        title: String,
        /// Why.
        failure: String,
        /// Where the server's words are.
        log: PathBuf,
    },
    /// A share of the device's memory is tried.
    TryingShare {
        /// The share.
        share: String,
    },
    /// It is used.
    UsingShare {
        /// The share.
        share: String,
    },
    /// It is too large.
    ShareFailed {
        /// The share.
        share: String,
        /// What happened.
        failure: String,
    },
    /// A level was measured.
    Level {
        /// The load.
        rate: String,
        /// Requests per second.
        throughput: f64,
        /// Each criterion's metric, its mean, its condition, and whether it is met.
        criteria: Vec<(String, f64, String, bool)>,
        /// How many runs.
        runs: usize,
    },
    /// Some of its requests failed.
    LevelFailures {
        /// The load.
        rate: String,
        /// How many.
        failed: i64,
    },
    /// Nothing keeps the limit.
    NoneMeets,
    /// The answer.
    Best {
        /// In words, which the result file has too.
        sentence: String,
    },
    /// Other settings may be as good.
    AsGood {
        /// The settings.
        title: String,
        /// Requests per second.
        throughput: f64,
    },
    /// The best settings are profiled.
    Profiling {
        /// The settings.
        title: String,
    },
    /// That failed.
    ProfileFailed {
        /// Why.
        failure: String,
    },
}
