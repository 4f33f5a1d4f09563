//! Server metrics by concept.

use crate::vocabulary::{Concept, NAMES};
use crate::{SeriesKind, ServerMetrics, server_metrics::Series};

impl ServerMetrics {
    /// The series of `concept`, whatever the server calls it.
    pub fn by_concept(&self, concept: Concept) -> Option<&Series> {
        let names = NAMES.iter().find(|(known, _)| *known == concept)?.1;
        names.iter().find_map(|name| self.get(name))
    }

    /// The latest values for live views: names and values. Fractions are in percent.
    pub fn now(&self) -> Vec<(&'static str, f64)> {
        let last = |concept| self.by_concept(concept).and_then(|series| series.values.last().copied());
        let hits = self.prefix_cache_hit_rate().map(|share| share * 100.0);
        let growth = |concept| self.by_concept(concept).and_then(Series::growth);
        let all = [
            ("running", last(Concept::Running)),
            ("waiting", last(Concept::Waiting)),
            ("KV cache %", last(Concept::KvUse).map(|share| share * 100.0)),
            ("prefix hits %", hits),
            ("preemptions", growth(Concept::Preemptions)),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value.filter(|value| value.is_finite())?))).collect()
    }

    /// The rate of a counter between two samples: the time of the later one, and the increase per second.
    pub fn rates(&self, series: &Series) -> Vec<(f64, f64)> {
        let known = || self.times.iter().copied().zip(series.values.iter().copied()).filter(|(_, v)| v.is_finite());
        let steps = known().zip(known().skip(1)).filter(|((before, _), (after, _))| after > before);
        steps.map(|((t0, v0), (t1, v1))| (t1, ((v1 - v0) / (t1 - t0)).max(0.0))).collect()
    }

    /// The values of a gauge with their times.
    pub fn points(&self, series: &Series) -> Vec<(f64, f64)> {
        debug_assert!(series.kind == SeriesKind::Gauge);
        self.times.iter().copied().zip(series.values.iter().copied()).filter(|(_, v)| v.is_finite()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_understood_by_their_own_names() {
        let mut vllm = ServerMetrics::default();
        for (time, running, total) in [(1.0, 3, 10), (2.0, 5, 30), (4.0, 4, 50)] {
            vllm.add(
                time,
                &format!(
                    "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running {running}\n\
                     # TYPE vllm:generation_tokens_total counter\nvllm:generation_tokens_total {total}\n"
                ),
            );
        }
        let running = vllm.by_concept(Concept::Running).unwrap();
        assert_eq!(vllm.points(running), [(1.0, 3.0), (2.0, 5.0), (4.0, 4.0)]);
        let tokens = vllm.by_concept(Concept::GenerationTokens).unwrap();
        assert_eq!(vllm.rates(tokens), [(2.0, 20.0), (4.0, 10.0)]);
        assert!(vllm.by_concept(Concept::KvUse).is_none());
        let mut tgi = ServerMetrics::default();
        tgi.add(0.0, "# TYPE tgi_queue_size gauge\ntgi_queue_size 4\n");
        assert_eq!(tgi.by_concept(Concept::Waiting).unwrap().max(), Some(4.0));
        let page = "# TYPE tgi_request_generated_tokens histogram\ntgi_request_generated_tokens_bucket{le=\"1\"} 2\n\
            tgi_request_generated_tokens_sum 40\ntgi_request_generated_tokens_count 3\n";
        tgi.add(1.0, page);
        tgi.add(2.0, &page.replace("40", "90"));
        assert_eq!(tgi.rates(tgi.by_concept(Concept::GenerationTokens).unwrap()), [(2.0, 50.0)]);
        assert_eq!(vllm.now(), [("running", 4.0)]);
    }

    #[test]
    fn a_counter_that_falls_or_rests_has_no_rate() {
        let series = Series { name: "n".into(), kind: SeriesKind::Counter, values: vec![5.0, 5.0, 2.0, 8.0] };
        let metrics = ServerMetrics { times: vec![0.0, 1.0, 2.0, 4.0], series: Vec::new() };
        assert_eq!(metrics.rates(&series), [(1.0, 0.0), (2.0, 0.0), (4.0, 3.0)]);
    }
}
