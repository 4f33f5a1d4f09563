//! The benchmark that wrote a result, recognized by its contents; file names do not matter.

use tacho_core::json::Dict;

tacho_core::named! {
    /// The kind of a result.
    #[derive(PartialOrd, Ord)]
    pub enum ResultKind, "a kind of result" {
        /// A benchmark of a server.
        Serving = "serving",
        /// Offline latency: one batch, repeated.
        Latency = "latency",
        /// Offline throughput: a whole workload at once.
        Throughput = "throughput",
        /// Startup time of an engine.
        Startup = "startup",
    }
}

impl ResultKind {
    /// The kind of a result; `None` if it is not recognized.
    pub fn of(result: &Dict) -> Option<Self> {
        let has = |key: &str| result.get(key).is_some();
        match () {
            () if ["duration", "completed", "request_throughput"].into_iter().all(has) => Some(ResultKind::Serving),
            () if has("avg_latency") && has("percentiles") => Some(ResultKind::Latency),
            () if has("avg_cold_startup_time") || has("avg_warm_startup_time") => Some(ResultKind::Startup),
            () if has("elapsed_time") && has("requests_per_second") => Some(ResultKind::Throughput),
            () => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tacho_core::json::parse;

    #[test]
    fn kinds_are_recognized_by_their_keys() {
        let of = |text: &str| ResultKind::of(parse(text).unwrap().as_dict().unwrap()).map(ResultKind::name);
        assert_eq!(of(r#"{"duration": 1, "completed": 2, "request_throughput": 2}"#), Some("serving"));
        assert_eq!(of(r#"{"avg_latency": 1, "percentiles": {}}"#), Some("latency"));
        assert_eq!(of(r#"{"elapsed_time": 1, "requests_per_second": 2}"#), Some("throughput"));
        assert_eq!(of(r#"{"avg_warm_startup_time": 1}"#), Some("startup"));
        assert_eq!(of(r#"{"avg_latency": 1}"#), None);
    }
}
