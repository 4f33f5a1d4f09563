//! `tacho check`: checks results against conditions.

use anyhow::bail;
use tacho_decide::threshold::{Finding, Standing};
use tacho_report::{Error, inputs, style::harmless_line};

use super::compare::sides::{detailed, sides};
use crate::{args::check::CheckArgs, exit::Exit, exit::show};

/// Evaluates all conditions for each result and prints one line per finding.
pub(crate) fn run(args: &CheckArgs) -> anyhow::Result<Exit> {
    let mut findings = Vec::new();
    for path in &args.results {
        let paths = std::slice::from_ref(path);
        let runs: Vec<_> = detailed(paths, sides(paths)?).iter().flat_map(|side| side.runs()).collect();
        if runs.is_empty() {
            bail!("{} holds tables of results, not results: pass files that a run wrote", path.display());
        }
        if args.results.len() > 1 || runs.len() > 1 {
            show(&format!("{}:\n", harmless_line(&path.display().to_string())))?;
        }
        for warning in inputs::of_results(None, runs.iter().map(|run| &run.fields)) {
            show(&format!("{warning}\n"))?;
        }
        for run in &runs {
            for threshold in &args.thresholds {
                let label = path.display().to_string();
                let finding = threshold.on_stored(run).map_err(|problem| Error::Key { label, problem })?;
                show(&format!("{}\n", harmless_line(&finding.text())))?;
                findings.push(finding);
            }
        }
    }
    Ok(code(&findings, args.allow_inconclusive))
}

/// Exit code 3 if a condition is true, or inconclusive at 95% confidence.
pub(crate) fn code(findings: &[Finding], allow_inconclusive: bool) -> Exit {
    let fails = |finding: &Finding| match finding.standing {
        Standing::Kept => false,
        Standing::Broken => true,
        Standing::Inconclusive => !allow_inconclusive,
    };
    if findings.iter().any(fails) { Exit::Gate } else { Exit::Done }
}
