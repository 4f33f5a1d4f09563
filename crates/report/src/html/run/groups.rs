//! Tables of groups of requests (classes, stages, replicas, adapters), which show whether one is slower than the others.

use tacho_record::RunRecord;

use crate::groups::{GroupTable, tables};
use crate::html::escape;

/// The sections; empty for a run without groups.
pub(super) fn sections(record: &RunRecord) -> String {
    tables(record).iter().map(section).collect()
}

fn section(GroupTable { title, headings, rows, note }: &GroupTable) -> String {
    let head: String = headings.iter().map(|heading| format!("<th>{}</th>", escape(heading))).collect();
    let row = |cells: &Vec<String>| {
        let numbers: String = cells[1..].iter().map(|cell| format!("<td class=\"n\">{}</td>", escape(cell))).collect();
        format!("<tr><th>{}</th>{numbers}</tr>\n", escape(&cells[0]))
    };
    let rows: String = rows.iter().map(row).collect();
    format!(
        "<section><h2>{}</h2>\n<div class=\"wide\" tabindex=\"0\"><table class=\"cells\"><tr><td></td>{head}</tr>\n{rows}</table></div>\
         <p class=\"note\">Latencies in ms.{}</p></section>\n",
        escape(title),
        note.as_ref().map_or_else(String::new, |note| format!(" {}.", escape(note)))
    )
}
