//! `--report`: one page for a run. What was run, whether to believe it, the numbers, and pictures that explain them.
//! One file, nothing fetched; the pictures are drawn by the page itself.

mod data;
mod over;
mod served;
mod sessions;
mod words;

use std::io::{self, Write};
use std::path::Path;

use tacho_metrics::RunRecord;

use super::{escape, in_script, packed};
use crate::Error;
use crate::json::write_whole;

const STYLE: &str = include_str!("run/run.css");
const DRAW: &str = include_str!("run/draw.js");
const SCRIPT: &str = include_str!("run/run.js");

/// What a page says beside its record.
#[derive(Debug, Clone, Default)]
pub struct About {
    /// The command line, without secrets.
    pub command: Option<String>,
}

/// Writes the page of `record` to `path`.
pub fn save(record: &RunRecord, about: &About, path: &Path) -> Result<(), Error> {
    write_whole(path, |out| write_page(record, about, out))
}

/// Writes the page of `record` to `out`.
pub fn write_page(record: &RunRecord, about: &About, out: &mut impl Write) -> io::Result<()> {
    let title = words::title(record);
    write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'unsafe-inline'; \
         style-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{0}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<header>\n<h1>{0}</h1>\n\
         <p class=\"sub\">{1}</p>\n{2}{3}</header>\n<main></main>\n<footer>{4}</footer>\n\
         <script type=\"application/json\" id=\"facts\">{5}</script>\n",
        escape(&title),
        escape(&words::subtitle(record)),
        words::verdict(record),
        words::cards(record) + &sessions::section(record),
        words::facts(record, about),
        in_script(&tacho_core::json::dumps(&data::facts(record).into())),
    )?;
    writeln!(out, "<script type=\"application/octet-stream\" id=\"rows\">{}</script>", packed(&data::rows(record))?)?;
    writeln!(out, "<script>\n{DRAW}</script>\n<script>\n{SCRIPT}</script>\n</body>\n</html>")
}
