//! `tacho sweep plot`: draws curves from the results of a sweep.

use std::{io::Write, path::Path};

use anyhow::bail;
use tacho_core::json::Dict;
use tacho_report::html::{Head, Tone, chart_page};
use tacho_report::inputs;
use tacho_report::json::{write_text, write_whole};
use tacho_report::plots::sweep::{Figure, figures, read_sweep};
use tacho_report::plots::{Chart, Scene, png, svg};

use super::make_directory;
use crate::args::sweep::plot::PlotArgs;
use crate::exit::{Exit, note};

/// Draws all figures. A figure that fails is reported, and the others are still drawn.
pub(crate) fn run(args: &PlotArgs) -> anyhow::Result<Exit> {
    let combinations = read_sweep(&args.directory)?;
    let figures = figures(&combinations, &args.spec)?;
    let directory = args.directory.join(&args.fig_dir);
    make_directory(&directory, "--fig-dir")?;
    let (mut drawn, mut failed) = (Vec::new(), Vec::new());
    for figure in &figures {
        match draw(args, figure, &directory) {
            Ok(chart) => drawn.extend(chart),
            Err(error) => failed.push(format!("{}: {error:#}", figure.name)),
        }
    }
    if args.html && !drawn.is_empty() {
        let path = directory.join(&args.spec.name).with_extension("html");
        let runs: Vec<&Dict> = combinations.iter().flat_map(|combination| &combination.runs).collect();
        let title = drawn.first().map_or_else(String::new, |chart| format!("Sweep: {}", chart.title));
        let page = chart_page(&head(title, &runs), &drawn);
        write_text(&path, &page)?;
        writeln!(tacho_report::out(), "Page: {}", path.display())?;
    }
    inputs::of_results(None, combinations.iter().flat_map(|combination| &combination.runs))
        .iter()
        .for_each(|line| note(line));
    match failed.as_slice() {
        [] => Ok(Exit::Done),
        [only] if figures.len() == 1 => bail!("{}", only.split_once(": ").map_or(only.as_str(), |(_, error)| error)),
        some => bail!("{} of {} figures failed: {}", some.len(), figures.len(), some.join("; ")),
    }
}

/// The head of the page: how many runs can be used.
fn head(title: String, runs: &[&Dict]) -> Head {
    let severe = runs.iter().filter(|run| !inputs::of_results(None, [**run]).is_empty()).count();
    let (tone, sentence) = match severe {
        0 => (Tone::Good, format!("No severe warnings in {} runs.", runs.len())),
        _ => (Tone::Warning, format!("{severe} of {} runs have severe warnings: their points are red.", runs.len())),
    };
    Head::of_results(title, runs, runs).verdict(tone, &sentence, None, None)
}

fn draw(args: &PlotArgs, figure: &Figure, directory: &Path) -> anyhow::Result<Option<Chart>> {
    let mut out = tacho_report::out();
    let group: Vec<String> = figure.group.iter().map(|(key, value)| format!("'{key}': '{value}'")).collect();
    let (rows, columns) = figure.grid();
    let path = directory.join(format!("{}.png", figure.name));
    writeln!(out, "[BEGIN FIGURE]\nGroup: {{{}}}\nGrid: {rows} rows x {columns} cols", group.join(", "))?;
    writeln!(out, "Output file: {}", path.display())?;
    let chart = if args.dry_run { None } else { figure.chart(&args.spec)? };
    match &chart {
        Some(chart) => save(&chart.scene(), &path, args.dpi as f64, args.svg)?,
        None if args.dry_run => {}
        None => {
            let filters: Vec<String> = args.spec.filters.iter().map(|filter| filter.describe()).collect();
            writeln!(out, "No data to plot. Filters: [{}]", filters.join(", "))?;
        }
    }
    writeln!(out, "[END FIGURE]")?;
    Ok(chart)
}

/// Writes a figure as PNG and as SVG.
pub(super) fn save(scene: &Scene, path: &Path, dpi: f64, with_svg: bool) -> anyhow::Result<()> {
    let pixels = png(scene, dpi)?;
    write_whole(path, |out| out.write_all(&pixels))?;
    if with_svg {
        write_text(&path.with_extension("svg"), &svg(scene))?;
    }
    Ok(())
}
