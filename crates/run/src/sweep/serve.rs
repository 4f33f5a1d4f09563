//! `sweep serve`: each server set is started once and measured with every client set that belongs to it.

use super::combination::Combination;
use super::session::{Sweep, SweepPlan};
use crate::experiment::{Error, ParamSet, Report, Tools, directory, summary_file};

pub fn serve(plan: &SweepPlan, tools: Tools<'_>) -> Result<Report, Error> {
    plan.check()?;
    let linked =
        |serve: &ParamSet| plan.bench_sets.iter().filter(|bench| plan.links.broken(serve, bench).is_none()).count();
    let pairs = plan.serve_sets.iter().map(linked).sum::<usize>();
    // vLLM shows an empty plan; to run it successfully would hide a mistake.
    if pairs == 0 && !plan.dry_run {
        return Err(Error::NothingLinked);
    }
    let total = pairs * plan.num_runs;
    let mut session = Sweep::of(plan, tools, total);
    for serve in &plan.serve_sets {
        let position = |bench: &ParamSet| directory(&plan.experiment, &[("SERVE-", serve), ("BENCH-", bench)], &[]);
        let missing = plan.bench_sets.iter().any(|bench| {
            plan.links.broken(serve, bench).is_none() && !session.has_runs(&position(bench), plan.num_runs)
        });
        let unsummed =
            plan.bench_sets.iter().any(|bench| tools.archive.value(&summary_file(&position(bench))).is_none());
        session.with_server(serve, missing || unsummed, missing, |session, slot| {
            for bench in &plan.bench_sets {
                let directory = position(bench);
                let results = session.combine(slot, Combination { serve, bench, directory: &directory })?;
                session.add_rows(results)?;
            }
            Ok(())
        })?;
    }
    session.finish()
}
