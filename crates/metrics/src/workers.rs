//! The load of the client's worker threads.

use tacho_core::json::{Codec, Dict, FieldError, Json, Value, typed};

tacho_core::record! {
    /// Load of one worker thread of the client.
    #[derive(Debug, Clone, Default, PartialEq)]
    pub struct WorkerUse {
        /// Fraction of the run that it was working rather than waiting.
        pub busy: f64,
        /// Seconds from the arrival of bytes at the socket to their read, sampled; empty where unknown.
        pub wake_lags as "wake_lags_ns": Vec<f64> => Nanos,
        /// Seconds by which the arrival of such an event may lie before its timestamp, a sample; empty where unknown.
        pub late_spans as "late_spans_ns": Vec<f64> => Nanos = Vec::new(),
        /// Token events received.
        pub events: u64,
        /// Token events that shared a read with a later one.
        pub coalesced: u64,
        /// Those that shared a read because this worker was late: their arrival times are unknown.
        pub late_coalesced: u64,
        /// Connections opened.
        pub connections: u64,
        /// Connections that could not be opened.
        pub connect_failures: u64,
        /// Whether arrivals were timestamped by the kernel.
        pub kernel_timestamps as "kernel_stamps": bool,
    }
}

/// Seconds as whole nanoseconds.
struct Nanos;

impl Codec<Vec<f64>> for Nanos {
    fn write(seconds: &Vec<f64>) -> Value {
        Value::List(seconds.iter().map(|one| Value::Int((one * 1e9).round() as i64)).collect())
    }

    fn read(value: &Value) -> Result<Vec<f64>, FieldError> {
        Ok(Vec::<f64>::from_json(value)?.into_iter().map(|nanos| nanos / 1e9).collect())
    }

    fn schema(_: bool) -> Dict {
        typed("array")
    }
}
