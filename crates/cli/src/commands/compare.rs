//! `tacho compare`: results beside each other.

use std::io::{self, Write};
use std::path::Path;

use anyhow::Context;
use tacho_report::compare::{Comparison, load, verdicts};
use tacho_report::json::write_whole;
use tacho_report::style::harmless_line;

use crate::args::compare::CompareArgs;
use crate::exit::Exit;

/// Compares, prints and writes what the arguments ask for.
pub(crate) fn run(args: &CompareArgs) -> anyhow::Result<Exit> {
    let sides = load(&args.files)?;
    let verdicts = verdicts(&sides, &args.spec)?;
    let comparison = Comparison::new(&sides, &args.spec)?;
    let mut text = format!("comparing : {}\n\n", harmless_line(&comparison.labels.join(", ")));
    for verdict in &verdicts {
        let table = verdict.table(&args.spec).markdown();
        text += &format!("## {}\n\n{table}\n", harmless_line(&verdict.title));
    }
    if !verdicts.is_empty() && sides.iter().any(|side| side.runs().len() == 1) {
        text += "An interval from one run per side covers what varied within the runs. What differs from run to run\n\
                 (another placement, other load on the machine) shows only in repeated runs: put them in a folder per \
                 side.\n\n";
    }
    text += &comparison.markdown();
    io::stdout().write_all(text.as_bytes())?;
    if let Some(path) = &args.markdown {
        write(path, &text)?;
    }
    if let Some(path) = &args.html {
        write(path, &comparison.html(&verdicts, &args.spec))?;
    }
    if let Some(folder) = &args.csv_out_dir {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
        for (name, text) in comparison.csv() {
            write(&folder.join(name), &text)?;
        }
        writeln!(io::stdout(), "Wrote CSVs under: {}", folder.display())?;
    }
    Ok(Exit::Done)
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    Ok(write_whole(path, |out| out.write_all(text.as_bytes()))?)
}
