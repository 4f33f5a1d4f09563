//! `--report`: one page for a run: the settings, the verdict, the metrics, and charts. A single file that loads
//! nothing; the page's script draws the charts.

mod data;
mod served;
pub mod stored;
mod texts;

use std::io::{self, Write};
use std::path::Path;

use tacho_metrics::Attribution;
use tacho_record::RunRecord;

use super::{Document, in_script, packed};
use crate::groups::{GroupTable, crossed, tables};
use crate::{Error, attribution, json::write_whole, outputs, sessions};

const SCRIPT: &str = include_str!("run/run.js");

/// The texts of a page in addition to its record.
#[derive(Debug, Clone, Default)]
pub struct About {
    /// The client's self-assessment, if the record does not have it.
    pub client: Option<String>,
    /// Warnings in addition to those of the record.
    pub warnings: Vec<String>,
    /// Where the time went, if that could be attributed.
    pub attribution: Option<Attribution>,
}

pub fn save(record: &RunRecord, about: &About, path: &Path) -> Result<(), Error> {
    write_whole(path, |out| write_page(record, about, out))
}

pub fn write_page(record: &RunRecord, about: &About, out: &mut impl Write) -> io::Result<()> {
    let head = texts::head(record, about);
    let groups: String = tables(record).iter().chain(&crossed(record)).map(GroupTable::html).collect();
    let body = format!(
        "<header>\n{}{}</header>\n<main></main>\n<footer>{}</footer>\n",
        head.html(),
        texts::cards(record)
            + &texts::failure_kinds(record)
            + &about.attribution.as_ref().map(attribution::section).unwrap_or_default()
            + &outputs::section(record)
            + &sessions::section(record)
            + &groups,
        texts::ranks(record) + &texts::facts(record),
    );
    let (facts, rows) = (in_script(&tacho_core::json::dumps(&data::facts(record).into())), data::rows(record));
    record.measured.samples.check()?;
    let data = format!(
        "<script type=\"application/json\" id=\"facts\">{facts}</script>\n\
         <script type=\"application/octet-stream\" id=\"rows\">{}</script>\n",
        packed(&rows)?
    );
    write!(out, "{}", Document { title: &head.title, policy: "", body: &body, data: &data, script: SCRIPT })
}
