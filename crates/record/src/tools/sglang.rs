//! SGLang's bench_serving: vLLM's keys but for those of E2EL and of all tokens.

use tacho_core::json::{Dict, FieldError, Value};

use super::{Mapped, Request, Tool, finite, needed, number, text};

pub(super) const RESULT: Tool = Tool {
    name: "SGLang bench_serving",
    file: "its --output-file, one line per run",
    differs: "TTFT and ITL skip events without content; output tokens are those asked for where the server reports no usage; E2EL, and with \
              it TPOT, ends with the stream; ITL of an event with several tokens counts as a gap per token",
    recognizes: |dict| dict.get("mean_e2e_latency_ms").is_some() && dict.get("total_output_tokens").is_some(),
    read: |dicts| dicts.iter().map(result).collect(),
};

fn result(dict: &Dict) -> Result<Mapped, FieldError> {
    let mut result = Mapped {
        model: text(dict, "model_id").or_else(|| text(dict, "server_info.model_path")),
        rate: number(dict, "request_rate"),
        concurrency: number(dict, "max_concurrency"),
        duration: needed(dict, "duration")?,
        completed: needed(dict, "completed")?,
        input_tokens: number(dict, "total_input_tokens"),
        output_tokens: number(dict, "total_output_tokens"),
        ..Mapped::default()
    };
    let words = ["mean", "median", "std", "p90", "p95", "p99"];
    for (family, own) in [("ttft", "ttft"), ("tpot", "tpot"), ("itl", "itl"), ("e2el", "e2e_latency")] {
        for word in words {
            result.metric(&format!("{word}_{family}_ms"), number(dict, &format!("{word}_{own}_ms")));
        }
    }
    let requests = requests(dict).unwrap_or_default();
    // The statistics of the file are of the end of the stream, its lists of the last token.
    if requests.len() as f64 == result.completed && result.completed > 0.0 {
        result.requests = requests;
    }
    Ok(result)
}

/// The successful requests of `--output-details`.
fn requests(dict: &Dict) -> Option<Vec<Request>> {
    let list = |key: &str| dict.get(key)?.as_list();
    let (ttfts, gaps) = (list("ttfts")?, list("itls")?);
    let (inputs, outputs, errors) = (list("input_lens")?, list("output_lens")?, list("errors")?);
    let is_good = |at: &usize| errors.get(*at).is_some_and(|error| error.as_str() == Some(""));
    let request = |at: usize| {
        let ttft = finite(ttfts.get(at)?)?;
        let itl = gaps.get(at)?.as_list()?.iter().map(finite).collect::<Option<Vec<f64>>>()?;
        let tokens = |list: &[Value]| list.get(at).and_then(finite);
        let latency = ttft + itl.iter().sum::<f64>();
        Some(Request {
            start: None,
            ttft: Some(ttft),
            latency,
            itl: Some(itl),
            input: tokens(inputs),
            output: tokens(outputs),
        })
    };
    (0..ttfts.len()).filter(is_good).map(request).collect()
}
