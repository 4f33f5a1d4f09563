//! Flags whose text is a list: `KEY=VALUE` items, SLOs, percentiles, thresholds.

use tacho_args::declare::*;
use tacho_args::repr::quoted;
use tacho_core::json::python_float;
use tacho_core::secret::redact_header_text;
use tacho_metrics::GoodputLimits;

use crate::args::error::{ArgumentError, bad_percentile};

/// Two thresholds in ms, in the format of `--timeline-itl-thresholds`.
pub(crate) fn gap_thresholds(text: &str) -> Result<(f64, f64), ArgumentError> {
    let numbers: Option<Vec<f64>> = text.split(',').map(python_float).collect();
    match numbers.as_deref() {
        Some(&[low, high]) if low.is_finite() && high.is_finite() => Ok((low, high)),
        _ => Err(ArgumentError::other(format!(
            "--timeline-itl-thresholds {}: use two numbers of milliseconds, such as 25,50",
            quoted(text)
        ))),
    }
}

pub(crate) fn percentile_list(list: &str) -> Result<Vec<f64>, ArgumentError> {
    let percentile = |item: &str| {
        let number = python_float(item).filter(|number| (0.0..=100.0).contains(number));
        number.ok_or_else(|| bad_percentile(item))
    };
    list.split(',').map(percentile).collect()
}

/// The SLOs of `--goodput`, such as `ttft:200`; the last one of a name counts.
pub(crate) fn goodput(setting: Setting<'_>) -> Result<Option<GoodputLimits>, ArgumentError> {
    let Some(items) = Option::<Vec<String>>::from_flag(setting) else { return Ok(None) };
    let mut limits = GoodputLimits::default();
    for item in &items {
        let wrong = |problem: &str| ArgumentError::other(format!("--goodput {}: {problem}", quoted(item)));
        let form = || wrong("write NAME:MILLISECONDS, such as ttft:200");
        let (name, limit) = item.split_once(':').ok_or_else(form)?;
        let ms = python_float(limit).ok_or_else(form)?;
        let known = match name {
            "ttft" => &mut limits.ttft_ms,
            "tpot" => &mut limits.tpot_ms,
            "e2el" => &mut limits.e2el_ms,
            _ => return Err(wrong(&format!("no SLO on {}: use ttft, tpot or e2el", quoted(name)))),
        };
        *known = Some(ms).filter(|ms| *ms >= 0.0).ok_or_else(|| wrong("an SLO is 0 ms or more")).map(Some)?;
    }
    Ok(Some(limits))
}

/// Splits items at the first `=` and trims both sides.
pub(crate) fn pairs(setting: Setting<'_>) -> Result<Vec<(String, String)>, ArgumentError> {
    let flag = setting.flag;
    let pair = |item: String| match item.split_once('=') {
        Some((key, value)) => Ok((key.trim().to_owned(), value.trim().to_owned())),
        None => {
            let shown = if flag == "--header" { redact_header_text(&item) } else { item };
            Err(ArgumentError::other(format!("{flag} {}: write KEY=VALUE", quoted(&shown))))
        }
    };
    Vec::<String>::from_flag(setting).into_iter().map(pair).collect()
}
