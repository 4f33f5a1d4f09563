//! Compares a run with its prediction, step by step.

use std::path::{Path, PathBuf};

use tacho_core::json::parse;
use tacho_forecast::fit::{StepComparison, compare_steps};

use crate::commands::fit::read;

/// Returns the comparison of the first two files if one of them is a prediction, otherwise `None`.
pub(super) fn markdown(files: &[PathBuf]) -> Option<String> {
    let [one, other] = files else { return None };
    let by = (predicted_by(one), predicted_by(other));
    let (measured, predicted, name) = match by {
        (None, Some(name)) => (one, other, name),
        (Some(name), None) => (other, one, name),
        _ => return None,
    };
    let head = format!("## Step by step: predicted by {name}\n\n");
    let steps = read(measured).and_then(|real| Ok(compare_steps(&real.0, &read(predicted)?.0)));
    Some(match steps {
        Ok(steps) => head + &table(&steps),
        Err(error) => format!("{head}Iterations cannot be reconstructed: {error:#}.\n\n"),
    })
}

fn predicted_by(path: &Path) -> Option<String> {
    let result = parse(&std::fs::read_to_string(path).ok()?).ok()?;
    result.text("predicted_by").map(str::to_owned)
}

fn table(steps: &StepComparison) -> String {
    let mut text =
        String::from("| steps of | measured | predicted | error | share of the time |\n|:---|---:|---:|---:|---:|\n");
    for kind in &steps.kinds {
        text += &format!(
            "| {} | {:.2} ms ({}) | {:.2} ms ({}) | {:+.1}% | {:.0}% |\n",
            kind.name,
            kind.seconds.0 * 1e3,
            kind.count.0,
            kind.seconds.1 * 1e3,
            kind.count.1,
            kind.error() * 100.0,
            kind.share * 100.0
        );
    }
    let ((real, model), (wide, wide_model)) = (steps.steps, steps.sequences);
    text += &format!(
        "\n{real} steps were measured and {model} predicted, of {wide:.1} and {wide_model:.1} sequences in the mean.\n"
    );
    text + &match (steps.off(), steps.is_good()) {
        (Some(off), Some(true)) => {
            format!("The steps are off by {:.1}% of their time: good fit here.\n\n", off * 100.0)
        }
        (Some(off), _) => {
            format!("The steps are off by {:.1}% of their time: poor fit here.\n\n", off * 100.0)
        }
        (None, _) => "Too few steps are alike to say whether good fit here.\n\n".to_owned(),
    }
}
