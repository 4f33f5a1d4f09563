//! Warnings about a result: one table with the code, severity, numbers and sentence of each.

mod rules;

use tacho_core::json::{Dict, FieldError, Json, Plain, Value, read_field};

use crate::OpenLoopMetrics;

/// How much a warning matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The metrics do not answer the question of the run.
    Bad,
    /// The metrics need interpretation.
    Warning,
    /// A fact about the run.
    Note,
}

/// Where a run that is computed again from its log gets a warning.
#[derive(PartialEq)]
enum Source {
    /// From its rows and settings.
    Rows,
    /// From the log, which stores it.
    Log,
}

/// Declares the warnings: code, severity, source, variant and sentence.
macro_rules! caveats {
    ($(
        $(#[doc = $about:literal])*
        $code:literal, $severity:ident, $source:ident: $variant:ident $({ $($field:ident: $type:ty),* })? => $text:expr;
    )*) => {
        /// A reason to doubt a result.
        #[derive(Debug, Clone, PartialEq)]
        #[expect(missing_docs, reason = "the message says it")]
        pub enum Caveat {
            $($(#[doc = $about])* $variant $({ $($field: $type),* })?,)*
        }

        impl Caveat {
            /// The codes in result files, with their severities.
            pub const CODES: &[(&str, Severity)] = &[$(($code, Severity::$severity)),*];

            /// Its code in result files.
            pub fn kind(&self) -> &'static str {
                match self {
                    $(Caveat::$variant { .. } => $code,)*
                }
            }

            /// How much it matters.
            pub fn severity(&self) -> Severity {
                match self {
                    $(Caveat::$variant { .. } => Severity::$severity,)*
                }
            }

            /// The warning as one line.
            pub fn text(&self) -> String {
                match self {
                    $(Caveat::$variant $({ $($field),* })? => String::from($text),)*
                }
            }

            /// The object in the log of the run; `None` if the rows show it.
            pub fn to_log(&self) -> Option<Value> {
                let mut dict = Dict::new();
                dict.set("kind", self.kind());
                let source = match self {
                    $(Caveat::$variant $({ $($field),* })? => {
                        $($(dict.set(stringify!($field), $field.to_json());)*)?
                        Source::$source
                    })*
                };
                (source == Source::Log).then_some(dict.into())
            }

            /// Reads what [`Caveat::to_log`] wrote. Fails for an unknown warning, or one without its numbers.
            pub fn from_log(value: &Value) -> Result<Self, FieldError> {
                let dict = value.as_dict().ok_or(FieldError::new("an object"))?;
                match read_field::<String, Plain>(dict, "kind", None)?.as_str() {
                    $($code => Ok(Caveat::$variant $({
                        $($field: read_field::<$type, Plain>(dict, stringify!($field), None)?),*
                    })?),)*
                    _ => Err(FieldError::new("a kind of caveat").at("kind")),
                }
            }

            /// One of each, with this number in all numeric fields.
            #[cfg(test)]
            fn examples(number: i64) -> Vec<Caveat> {
                let any = |fits: fn(&Value) -> bool| {
                    [Value::Int(number), Value::from("text"), Value::Bool(true)].into_iter().find(fits).unwrap()
                };
                let kinds = [$({
                    let mut dict = Dict::new();
                    dict.set("kind", $code);
                    $($(dict.set(stringify!($field), any(|value| <$type>::from_json(value).is_ok()));)*)?
                    dict.into()
                }),*];
                kinds.iter().map(|kind| Caveat::from_log(kind).unwrap()).collect()
            }
        }
    };
}

caveats! {
    /// The run was stopped before its end.
    "interrupted", Bad, Rows: Interrupted { finished: u64, requested: i64 } => match *finished as i64 >= *requested {
        true => format!("the run was interrupted after {finished} requests"),
        false => format!("the run was interrupted: {finished} of {requested} requests are in this report"),
    };

    /// The run was resumed after a break. The break is cut out of all times. `answered` counts responses since then.
    "resumed", Warning, Log: Resumed { segments: u64, gap_s: f64, resent: u64, answered: u64 } => {
        // A killed run left no record of its requests in flight.
        let again = match resent {
            0 => "requests in flight when it began were sent again".to_owned(),
            known => format!("{known} requests were sent again"),
        };
        let unanswered = if *answered == 0 { "; none completed" } else { "" };
        format!(
            "the run has {segments} parts: the last break took {gap_s:.0} s, which no time includes, and \
             {again}{unanswered}"
        )
    };

    /// `--duration` ended the run before its workload did.
    "ended_by_duration", Note, Log: EndedByDuration { cut_off: u64 } =>
        ended("the time of the run was over", *cut_off);

    /// `--until` ended it.
    "ended_by_precision", Note, Log: EndedByPrecision { cut_off: u64 } =>
        ended("the run ended when its metric was known precisely enough", *cut_off);

    /// `--stop-on-failures` ended it.
    "ended_by_failures", Bad, Log: EndedByFailures { cut_off: u64 } =>
        ended("the run was ended because too many requests failed", *cut_off);

    /// `--stop-on-overload` ended it.
    "ended_by_overload", Bad, Log: EndedByOverload { cut_off: u64 } => ended(
        "the run was ended because the server did not keep up: its backlog grew. The latencies only reflect how \
         long the run was",
        *cut_off,
    );

    /// `--on-lost-rank stop` ended it.
    "ended_by_lost_rank", Bad, Log: EndedByLostRank { cut_off: u64 } =>
        ended("the run was ended because a rank was lost", *cut_off);

    /// The metric of `--until` did not reach the requested precision.
    "imprecise", Warning, Log: Imprecise { metric: String, wanted: f64, reached: Option<f64> } => {
        let known = match reached {
            Some(reached) => format!("known to {:.1}%", reached * 100.0),
            None => "not known to any precision".to_owned(),
        };
        format!("{metric} is {known}, not to the requested {}%: raise --duration", wanted * 100.0)
    };

    /// Some requests failed.
    "requests_failed", Bad, Rows: RequestsFailed { failed: u64, total: u64, first: String } => {
        let reason = if first.is_empty() { "no reason given" } else { first };
        format!("{failed} of {total} requests failed, the first with: {reason}")
    };

    /// The server did not report how many tokens it generated.
    "tokens_estimated", Warning, Rows: TokensEstimated { responses: u64, total: u64, counted: bool } => {
        let instead = if *counted { "the tokenizer counted instead" } else { "each counts as one token" };
        format!("the server reported no token count for {responses} of {total} responses; {instead}")
    };

    /// Generated audio whose duration is unknown.
    "audio_undecoded", Warning, Rows: AudioUndecoded { responses: u64, total: u64 } => format!(
        "the audio of {responses} of {total} responses is neither WAV nor PCM: its duration, real-time factor and \
         underruns are not measured; request a \"response_format\" of wav or pcm"
    );

    /// The server and the tokenizer count different numbers of prompt tokens.
    "tokenizer_mismatch", Warning, Log: TokenizerMismatch { prompts: u64, ours: u64, theirs: u64 } => format!(
        "the server counts {theirs} tokens in {prompts} of the prompts where the tokenizer counts {ours}, \
         {:.2} times as many: prompt lengths are not as requested; check --tokenizer, and whether the server counts tokens",
        *theirs as f64 / (*ours).max(1) as f64
    );

    /// Outputs are longer than the requests ask for.
    "outputs_longer", Warning, Log: OutputsLonger { responses: u64, total: u64, got: u64, asked: u64 } => format!(
        "{responses} of {total} outputs are longer than asked for, such as {got} tokens for {asked}: the server ignores the \
         field with the limit; --extra-body '{{\"max_tokens\": {asked}}}' sends an older one"
    );

    /// Outputs equal the references of other requests.
    "outputs_swapped", Bad, Rows: OutputsSwapped { swapped: u64, checked: u64 } => format!(
        "{swapped} of {checked} checked outputs are those of other requests: the server mixes up responses"
    );

    /// Outputs differ from their references.
    "outputs_differ", Warning, Rows: OutputsDiffer { different: u64, checked: u64, alone: Option<f64> } => {
        let alone = alone.map_or_else(String::new, |share| format!(", {:.1}% of those sent alone", share * 100.0));
        let share = *different as f64 / *checked as f64 * 100.0;
        format!("{different} of {checked} checked outputs ({share:.1}%) differ from their references{alone}")
    };

    /// Outputs are compared although they are sampled.
    "outputs_sampled", Warning, Log: OutputsSampled => "outputs are compared, but the requests do not set --temperature 0: \
        sampled outputs differ by chance";

    /// The command of `--grade-command` failed.
    "ungraded", Bad, Log: Ungraded { problem: String } => format!("the outputs are not graded: {problem}");

    /// The server's metrics are not those of one server.
    "metrics_mixed", Warning, Log: MetricsMixed { counter: String, from: f64, to: f64 } => format!(
        "{counter} of /metrics fell from {from} to {to} during the run: the server restarted, or a load balancer answers \
         for several. The server's metrics are left out; pass each replica as --base-url to get them"
    );

    /// Requests were sent more slowly than scheduled.
    "rate_missed", Warning, Rows: RateMissed { planned: f64, delivered: f64, cap: Option<u64> } => {
        let why = cap.map_or_else(String::new, |cap| format!(": --max-concurrency {cap} held the others back"));
        format!("the schedule wanted {planned:.2} requests/s, {delivered:.2} were sent{why}")
    };

    /// A percentile that needs more samples than there are.
    "few_samples", Warning, Rows: FewSamples { percentile: f64, samples: u64, needed: u64 } =>
        format!("{samples} samples are too few for a p{percentile}: send at least {needed} requests");

    /// Several token events arrived in one read.
    "events_coalesced", Warning, Rows: EventsCoalesced { share: f64 } => {
        let effect = match *share > OpenLoopMetrics::UNTIMED {
            true => "TPOT and ITL are not measured; does a proxy buffer or compress the stream?",
            false => "their gaps are bounds",
        };
        format!("{:.0}% of token events arrived in bundles: {effect}", share * 100.0)
    };

    /// The first event has no content, and the first content came later.
    "content_later", Warning, Rows: ContentLater { first_ms: f64, content_ms: f64 } => format!(
        "TTFT is that of an event without content, such as a role: its median is {first_ms:.0} ms, that of the first \
         content {content_ms:.0} ms"
    );

    /// The server reported impossible token counts.
    "impossible_usage", Warning, Log: ImpossibleUsage { responses: u64, total: u64 } =>
        format!("the server reported impossible token counts in {responses} of {total} responses; they are ignored");

    /// Kernel timestamps contradict this process's clock.
    "timestamp_anomaly", Warning, Log: TimestampAnomaly { reads: u64 } => format!(
        "the kernel's stamps of {reads} reads contradict this machine's clock (was it set or faked?); their own \
         times are taken instead"
    );

    /// The log of the run is incomplete.
    "log_incomplete", Warning, Log: LogIncomplete { reason: String } =>
        format!("the log of this run is not whole: {reason}");

    /// The command of `--on-row-command` did not get all rows.
    "row_command", Warning, Log: RowCommand { missed: u64, rows: u64, problem: String } => match missed {
        0 => format!("--on-row-command {problem}"),
        _ => format!("--on-row-command {problem}; it missed {missed} of {rows} rows"),
    };

    /// The server's prefix cache held prompts of the run before it began.
    "warm_cache", Warning, Log: WarmCache { observed: f64, expected: f64 } => format!(
        "the prefix cache was warm before the run: {:.1}% of the prompt tokens were found in it, of which the \
         run's own prompts account for {:.1}% at most; --cache-salt random or --reset-prefix-cache rules it out",
        observed * 100.0,
        expected * 100.0
    );

    /// Latency kept changing after the warm-up.
    "drift", Warning, Rows: Drift { change: f64 } => format!(
        "no steady state: the mean latency changed by {:+.0}% from the first half of the run to the second, so that a \
         longer run gives other numbers",
        change * 100.0
    );

    /// Latencies were too strongly autocorrelated to bound them from above.
    "autocorrelated", Warning, Rows: Autocorrelated { metric: String, effective: f64 } => format!(
        "latencies are strongly autocorrelated: {metric} has an effective sample size of {effective:.0}, too few for \
         upper confidence bounds; run longer or repeat with --num-runs"
    );

    /// The server was close to its capacity, and the run too short to bound its latencies from above.
    "near_saturation", Warning, Rows: NearSaturation { slowdown: f64, relaxations: f64 } => {
        let slower = if slowdown.is_finite() { format!("{slowdown:.1} times") } else { "many times".to_owned() };
        format!(
            "near saturation: the mean latency is {slower} that of an idle server, and the run lasts {relaxations:.0} \
             relaxation times of the queue where upper confidence bounds take 40; run longer or repeat with --num-runs"
        )
    };

    /// Responses that count as goodput stalled: their means hide it.
    "goodput_hides_stalls", Warning, Rows: GoodputHidesStalls { stalled: u64, good: u64 } => format!(
        "goodput hides stalls: in {stalled} of {good} requests that meet the SLO, more than a tenth of the tokens missed \
         their deadlines; see fluid_goodput"
    );

    /// Speculative decoding was measured on random tokens.
    "acceptance_on_random_text", Warning, Log: AcceptanceOnRandomText =>
        "speculative decoding was measured on random tokens: the acceptance, and every latency that depends on it, says \
         nothing about real text; use --dataset-name spec_bench, sharegpt or custom";

    /// All requests were sent at once: one burst is one observation.
    "one_burst", Warning, Rows: OneBurst =>
        "no confidence intervals: all requests were sent at once, and one burst is one observation; \
         use --request-rate or repeat with --num-runs";

    /// Arrivals exceeded completions.
    "queue_unstable", Bad, Rows: QueueUnstable { arrived: usize, ended: usize } => format!(
        "no steady state: in the second half of the schedule {arrived} requests arrived and {ended} completed; latencies \
         grow for as long as the run goes on"
    );

    /// The client did not send what was due, so that a growing backlog says nothing about the server.
    "client_away", Warning, Rows: ClientAway { requests: usize, seconds: f64 } => format!(
        "the client was away for {seconds:.2} s in the second half of the schedule and sent {requests} requests late: \
         whether the server kept up is unknown"
    );

    /// A rank was lost.
    "rank_lost", Bad, Log: RankLost { rank: u64, machine: String, reason: String, missing: u64 } => {
        let share = match missing {
            0 => "all rows that it reported are there".to_owned(),
            1 => "1 request of its share is missing".to_owned(),
            _ => format!("{missing} requests of its share are missing"),
        };
        format!("rank {rank} on {machine} was lost ({reason}): {share}")
    };

    /// A replica failed more requests than the others, or was removed.
    "replica_unhealthy", Bad, Log: ReplicaUnhealthy { replica: String, failed: u64, total: u64, since: f64, removed: bool } => {
        let removed = if *removed { "; it got no more requests after that" } else { "" };
        format!("replica {replica} failed {failed} of {total} requests from {since:.1} s on{removed}")
    };

    /// A replica was far slower than the others.
    "replica_slow", Warning, Log: ReplicaSlow { replica: String, median_ms: f64, others_ms: f64 } => format!(
        "replica {replica} is slow: its median latency is {median_ms:.0} ms, {:.1} times that of the others",
        median_ms / others_ms
    );

    /// Another tool made the result, with other definitions of its metrics.
    "other_definitions", Warning, Log: OtherDefinitions { tool: String, differences: String } =>
        format!("metrics of {tool}: {differences}");

    /// The client distorted what it measured.
    "client_unreliable", Bad, Rows: ClientUnreliable { verdict: String } => verdict.as_str();
}

/// Why a rule ended the run, and the requests that it cut off.
fn ended(why: &str, cut_off: u64) -> String {
    match cut_off {
        0 => why.to_owned(),
        _ => format!("{why}; {cut_off} requests could not finish in the time left to them and are not counted"),
    }
}

impl Caveat {
    /// The codes of runs that a rule ended because the server performed badly.
    pub const BAD_ENDS: [&str; 2] = ["ended_by_failures", "ended_by_overload"];

    /// The severity of a code in a result file; `None` if this version does not know it.
    pub fn severity_of(code: &str) -> Option<Severity> {
        Self::CODES.iter().find(|(known, _)| *known == code).map(|(_, severity)| *severity)
    }

    /// Whether a rule ended the run, so that requests that it aborted are not counted.
    pub fn is_end(&self) -> bool {
        self.kind().starts_with("ended_by_")
    }

    /// Whether such a rule ended it because the server performed badly.
    pub fn is_bad_end(&self) -> bool {
        Self::BAD_ENDS.contains(&self.kind())
    }

    /// Returns whether planned requests are missing or were sent at other times. The end of a requested duration is
    /// planned.
    pub fn leaves_out_requests(&self) -> bool {
        let missing = matches!(self, Caveat::Interrupted { .. } | Caveat::Resumed { .. } | Caveat::RankLost { .. });
        missing || self.is_end() && !matches!(self, Caveat::EndedByDuration { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_caveat_has_a_text_and_comes_back_from_a_log() {
        for all in [0, 1, 7].map(Caveat::examples) {
            assert_eq!(all.len(), Caveat::CODES.len());
            for caveat in all {
                assert!(!caveat.text().is_empty() && Caveat::severity_of(caveat.kind()) == Some(caveat.severity()));
                if let Some(logged) = caveat.to_log() {
                    assert_eq!(Caveat::from_log(&logged), Ok(caveat));
                }
            }
        }
        let unknown = tacho_core::json::parse(r#"{"kind": "new"}"#).unwrap();
        assert_eq!(Caveat::from_log(&unknown).unwrap_err().to_string(), "kind is not a kind of caveat");
        assert!(Caveat::BAD_ENDS.iter().all(|code| Caveat::severity_of(code) == Some(Severity::Bad)));
    }
}
