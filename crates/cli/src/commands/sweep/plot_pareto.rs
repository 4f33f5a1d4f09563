//! `tacho sweep plot_pareto`: draws the Pareto-optimal settings.

use std::io::Write;

use tacho_core::json::Dict;
use tacho_report::html::{Head, chart_page};
use tacho_report::{inputs, json::write_text, plots::pareto::Pareto, plots::sweep::read_sweep};

use super::{make_directory, plot::save};
use crate::args::sweep::plot_pareto::ParetoArgs;
use crate::exit::{Exit, note};

const DPI: f64 = 100.0;

pub(crate) fn run(args: &ParetoArgs) -> anyhow::Result<Exit> {
    let combinations = read_sweep(&args.directory)?;
    let pareto = Pareto::new(&combinations, &args.spec)?;
    let directory = args.directory.join("pareto");
    let path = directory.join("PARETO.png");
    let mut out = tacho_report::out();
    if pareto.skipped > 0 {
        writeln!(out, "Skipped {} runs without a {}.", pareto.skipped, args.spec.missing())?;
    }
    writeln!(out, "[BEGIN FIGURE]\nGroup: {{}}\nOutput file: {}", path.display())?;
    if !args.dry_run {
        make_directory(&directory, "EXPERIMENT_DIR")?;
        let chart = pareto.chart(&args.spec);
        save(&chart.scene(), &path, DPI, args.svg)?;
        if args.html {
            let runs: Vec<&Dict> = combinations.iter().flat_map(|combination| &combination.runs).collect();
            let (points, frontier) = pareto.sizes();
            let head = Head::of_results("Pareto frontier: throughput per GPU against speed per user", &runs, &runs)
                .card("Settings measured", &points.to_string(), "")
                .card("On the frontier", &frontier.to_string(), "no other is better in both");
            let page = chart_page(&head, &[chart]);
            write_text(&path.with_extension("html"), &page)?;
        }
        let (points, frontier) = pareto.sizes();
        writeln!(out, "Plotted {points} points; Pareto frontier size: {frontier}.")?;
    }
    writeln!(out, "[END FIGURE]")?;
    inputs::of_results(None, combinations.iter().flat_map(|combination| &combination.runs))
        .iter()
        .for_each(|line| note(line));
    Ok(Exit::Done)
}
