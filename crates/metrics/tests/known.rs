//! Metrics whose numbers are computed by hand.

use tacho_core::FailureKind;
use tacho_metrics::structured::{Correct, JudgedResponse, StructuredSummary, Verdict};
use tacho_metrics::{Sample, Setup, dcgm};

#[test]
fn fields_of_gpu_exporters_have_the_units_of_telemetry() {
    let fields = [
        ("DCGM_FI_DEV_POWER_USAGE", 10.0),
        ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", 0.01),
        ("DCGM_FI_DEV_GPU_UTIL", 10.0),
        ("DCGM_FI_DEV_MEM_COPY_UTIL", 10.0),
        ("DCGM_FI_DEV_FB_USED", 10.0 / 1024.0),
        ("DCGM_FI_DEV_GPU_TEMP", 10.0),
        ("DCGM_FI_DEV_SM_CLOCK", 10.0),
        ("DCGM_FI_PROF_SM_ACTIVE", 1000.0),
        ("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", 1.0),
    ];
    for (field, expected) in fields {
        let found = dcgm::gpus(&format!("{field}{{gpu=\"3\"}} 10\n"));
        let values: Vec<(&str, f64)> = found.iter().map(|(gpu, _, _, value)| (gpu.as_str(), *value)).collect();
        assert_eq!(values, [("gpu3", expected)], "{field}");
    }
}

#[test]
fn responses_that_are_judged_are_counted_by_their_constraint() {
    let response = |constrained, failure, parses, obeys| JudgedResponse {
        sample: Sample { ttft: 0.1, latency: 0.2, output_len: 2, failure, ..Sample::default() },
        expected: None,
        constrained,
        fresh: false,
        verdict: Verdict { loose: None, parses, obeys },
    };
    let responses = [
        response(true, None, Some(true), Some(true)),
        response(true, None, Some(true), Some(false)),
        response(true, None, Some(false), None),
        response(true, Some(FailureKind::Connect), Some(true), Some(true)),
        response(false, None, None, None),
    ];
    let found = StructuredSummary::of(&responses, &Setup::example(), 1.0);
    assert_eq!(found.constrained, Correct { responses: 3, judged: 2, parse: 2, valid: 1 });
    assert_eq!(found.unconstrained, Correct { responses: 1, ..Correct::default() });
    assert_eq!((found.constrained.rate(), found.unconstrained.rate()), (Some(50.0), None));
}
