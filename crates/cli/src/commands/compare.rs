//! `tacho compare`: compares results.

pub(crate) mod sides;
mod steps;

use std::{io::Write, path::Path};

use anyhow::bail;
use tacho_core::json::dumps_indented;
use tacho_report::compare::{Comparison, Group, Side, Verdicts, terminal, verdicts, warnings};
use tacho_report::json::write_text;
use tacho_report::style::{harmless, harmless_line};

use self::sides::{detailed, sides};
use super::sweep::make_directory;
use crate::args::compare::CompareArgs;
use crate::exit::{Exit, note, show};

pub(crate) fn run(args: &CompareArgs) -> anyhow::Result<Exit> {
    let mut sides = sides(&args.files)?;
    // The log of a run has per-request times, which allow more precise verdicts.
    if !args.as_script {
        sides = detailed(&args.files, sides);
    }
    let verdicts = verdicts(&sides, &args.spec)?;
    let comparison = Comparison::new(&sides, &args.spec)?;
    if comparison.groups.is_empty() && verdicts.is_empty() {
        bail!("{}: no runs of the same test or settings on two sides", comparison.labels.join(", "));
    }
    if comparison.groups.is_empty() && args.excel_out.is_some() && !args.as_script {
        bail!("--excel-out: a workbook is made of load levels, which only serving results have; take --csv-out-dir");
    }
    let warnings = if args.as_script { Vec::new() } else { warnings(&sides) };
    let text = document(&comparison, &verdicts, &warnings, args);
    if args.as_script {
        show(&text)?;
    } else {
        print_verdicts(&comparison, &verdicts, &warnings, args)?;
    }
    if let Some(path) = &args.markdown {
        write(path, &text)?;
        note(&format!("saved: {}", path.display()));
    }
    if args.as_script && args.files.len() == 1 && sides.len() > 1 {
        save_splits(&sides)?;
    }
    if let Some(path) = &args.html {
        save_pages(path, &comparison, &sides, &verdicts, args)?;
    }
    save_tables(&comparison, &verdicts, args)?;
    Ok(Exit::Done)
}

fn document(comparison: &Comparison, verdicts: &[Verdicts], warnings: &[String], args: &CompareArgs) -> String {
    let mut text = format!("comparing : {}\n\n", harmless_line(&comparison.labels.join(", ")));
    text.extend(warnings.iter().map(|warning| format!("{warning}\n\n")));
    for verdict in verdicts {
        text += &format!("{}\n", harmless_line(&verdict.sentence(&args.spec)));
    }
    text += if verdicts.is_empty() { "" } else { "\n" };
    for verdict in verdicts {
        let table = verdict.table(&args.spec).markdown();
        text += &format!("## {}\n\n", harmless_line(&verdict.title));
        if !verdict.differs.is_empty() {
            text += &format!("Set otherwise: {}\n\n", harmless_line(&verdict.differs));
        }
        text += &format!("{table}\n");
    }
    if verdicts.iter().any(|verdict| verdict.single) {
        text += "An interval from one run per side covers what varied within the runs. What differs from run to run \
                 (another placement, other load on the machine) shows only in repeated runs: put them in one directory per \
                 side.\n\n";
    }
    text += &comparison.markdown(&args.spec);
    text += &steps::markdown(&args.files).map(|steps| format!("\n{}", harmless(&steps))).unwrap_or_default();
    text
}

fn save_pages(
    path: &Path,
    comparison: &Comparison,
    sides: &[Side],
    verdicts: &[Verdicts],
    args: &CompareArgs,
) -> anyhow::Result<()> {
    write(path, &comparison.html(sides, verdicts, &args.spec))?;
    note(&format!("saved: {}   (open it in a browser)", path.display()));
    if args.as_script || comparison.groups.len() > 1 {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        for group in &comparison.groups {
            let name = format!("{stem}_{}.html", group.page_name());
            write(&path.with_file_name(name), &comparison.group_html(group, &args.spec))?;
        }
    }
    Ok(())
}

fn save_tables(comparison: &Comparison, verdicts: &[Verdicts], args: &CompareArgs) -> anyhow::Result<()> {
    let no_excel = std::env::var("VLLM_COMPARE_DISABLE_EXCEL").is_ok_and(|text| text == "1");
    if let Some(path) = args.excel_out.as_ref().filter(|_| !no_excel) {
        let first = &args.files[0];
        let directory = if first.is_dir() { first.as_path() } else { first.parent().unwrap_or(Path::new(".")) };
        let environment = directory.join("vllm_env.txt");
        comparison.write_workbook(path, std::fs::read_to_string(environment).ok().as_deref())?;
        writeln!(tacho_report::out(), "Wrote Excel: {}", path.display())?;
    }
    if let Some(directory) = &args.csv_out_dir {
        make_directory(directory, "--csv-out-dir")?;
        for (name, text) in comparison.csv(args.as_script) {
            write(&directory.join(name), &text)?;
        }
        for (at, verdict) in verdicts.iter().enumerate() {
            write(&directory.join(format!("Verdict_{}.csv", at + 1)), &verdict.table(&args.spec).csv())?;
        }
        writeln!(tacho_report::out(), "Wrote CSVs under: {}", directory.display())?;
    }
    Ok(())
}

/// Prints a forest plot of each pair, and the tables if there are several load levels or no verdicts.
fn print_verdicts(
    comparison: &Comparison,
    verdicts: &[Verdicts],
    warnings: &[String],
    args: &CompareArgs,
) -> anyhow::Result<()> {
    let mut out = tacho_report::out();
    out.write_all(terminal(verdicts, warnings, &args.spec, tacho_report::style::screen()).as_bytes())?;
    let levels = |group: &Group| group.metrics.iter().any(|metric| metric.table.rows.len() > 1);
    if verdicts.is_empty() || comparison.groups.iter().any(levels) {
        show(&comparison.markdown(&args.spec))?;
    }
    if let Some(steps) = steps::markdown(&args.files) {
        show(&harmless(&steps))?;
    }
    Ok(())
}

/// Writes the parts of a single table to separate files, as vLLM's script does.
fn save_splits(sides: &[Side]) -> anyhow::Result<()> {
    for side in sides {
        let directory = Path::new("splits").join(&side.label);
        make_directory(&directory, "the current directory")?;
        let path = directory.join("benchmark_results.json");
        write(&path, &dumps_indented(&side.rows_json(), 2))?;
        writeln!(tacho_report::out(), "Saved: {}", path.display())?;
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    Ok(write_text(path, text)?)
}
