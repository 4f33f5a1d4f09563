//! Decisions whose numbers are computed by hand.

use tacho_core::{Observation, RequestInfo, Timestamp};
use tacho_decide::agreement::agreement;
use tacho_decide::compare::Confidence;
use tacho_decide::verify::{Check, Expected, RowAudit, SeenRow, Weight, of_record};
use tacho_metrics::trust::{TimestampedBy, TrustVerdict};
use tacho_metrics::{Sample, Samples, Setup, Trust};
use tacho_record::{Measured, RunRecord};

/// A hundred requests of this latency in seconds.
fn run(latency: f64) -> Samples {
    let one = |index: usize| Sample {
        index,
        sent: index as f64,
        ttft: latency / 2.0,
        latency,
        output_len: 2,
        itl: vec![latency / 2.0].into(),
        ..Sample::default()
    };
    (0..100).map(one).collect()
}

#[test]
fn agreement_counts_the_base_as_one_more_run() {
    let new = [1.0, 1.1, 1.2].map(run);
    let found = agreement(&run(1.0), &new.each_ref(), |_| true, 0.5, Confidence::USUAL);
    let latency = found.iter().find(|one| one.key == "mean_e2el_ms").unwrap();
    // Runs differ from the base by 0, 0.1 and 0.2 s: their variance is 0.01, that of mean and base together 4/3 of it.
    let half = 2.919_986 * (0.01_f64 * 4.0 / 3.0).sqrt();
    let (low, high) = latency.interval.unwrap();
    assert!((latency.change - 0.1).abs() < 1e-9, "{latency:?}");
    assert!((low - (0.1 - half)).abs() < 1e-5 && (high - (0.1 + half)).abs() < 1e-5, "{latency:?}, {half}");
}

#[test]
fn token_events_out_of_order_are_named_as_such() {
    let mut audit = RowAudit::new(None);
    for index in 0..3 {
        let [start, first, last, done] = [1, 5, 3, 7].map(|at| Timestamp((10 * index + at) << 20));
        let chunks = if index == 1 { vec![first, last] } else { vec![last, first] };
        let row = Observation { chunks, done, ..Observation::dispatched(index as usize, start, start) };
        audit.take(SeenRow::of_log(&RequestInfo::default(), &row, Timestamp(0)));
    }
    let found = audit.findings(&Expected { requests: Some(3), duration: 1.0, ..Expected::default() });
    let texts: Vec<&str> = found.iter().map(|finding| finding.text.as_str()).collect();
    assert_eq!((audit.rows(), texts), (3, vec!["request 1: a token event comes before what it follows"]));
}

#[test]
fn a_client_that_is_not_known_to_distort_is_a_remark() {
    let weight = |verdict: TrustVerdict| {
        let mut record = RunRecord::compute(Setup::example(), Measured::default());
        record.trust = Some(Trust {
            timestamps: TimestampedBy::User,
            lateness: None,
            wake_lag: None,
            late_coalesced_fraction: 0.0,
            busy: Vec::new(),
            connections: 0,
            connect_failures: 0,
            arrival_distance: None,
            bounds: None,
            clock_bound_ms: None,
            verdict,
        });
        let found = of_record(&record, &RowAudit::new(None));
        found.iter().find(|finding| finding.check == Check::ClientUnreliable).map(|finding| finding.weight)
    };
    assert_eq!(weight(TrustVerdict::Ok), None);
    assert_eq!(weight(TrustVerdict::Unknown), Some(Weight::Remark));
    assert_eq!(weight(TrustVerdict::Imprecise), Some(Weight::Invalid));
}
