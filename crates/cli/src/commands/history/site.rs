//! `tacho history site`: writes the static site.

use std::path::Path;

use tacho_report::history::{entry_page, file, index};
use tacho_report::json::write_text;

use super::{some, stored};
use crate::exit::{Exit, note, saved};
use crate::{args::history::SiteArgs, commands::sweep::make_directory};

/// Writes the pages of the entries, then the index. An entry without a page is left out of the index.
pub(crate) fn run(args: &SiteArgs) -> anyhow::Result<Exit> {
    let mut entries = some(&args.history, &args.filter)?;
    let directory = args.output.as_deref().unwrap_or(Path::new("."));
    make_directory(&directory.join("runs"), "--output-dir")?;
    let write = |name: &str, text: &str| write_text(&directory.join(name), text);
    let mut failed = Vec::new();
    for entry in &entries {
        match stored(&args.history, entry).and_then(|result| Ok(entry_page(entry, &result)?)) {
            Ok(text) => write(&file(entry), &text)?,
            Err(error) => {
                note(&format!("warning: left out: {}: {error:#}", entry.id));
                failed.push(entry.id.clone());
            }
        }
    }
    entries.retain(|entry| !failed.contains(&entry.id));
    write("index.html", &index(&args.title, &entries))?;
    saved(directory.join("index.html"));
    Ok(Exit::Done)
}
