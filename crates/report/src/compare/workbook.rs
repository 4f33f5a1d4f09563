//! A comparison as a workbook: the machine, then a sheet per group with all its tables.

use std::path::Path;

use tacho_core::json::Value;

use super::join::{Comparison, named};
use crate::tables::workbook::{Sheet, SheetRow, write};
use crate::{Error, tables::markdown::Table};

impl Comparison {
    pub fn write_workbook(&self, path: &Path, environment: Option<&str>) -> Result<(), Error> {
        let mut sheets = vec![Sheet { name: "Environment".to_owned(), rows: environment_rows(environment) }];
        for (group, name) in self.groups.iter().zip(self.sheet_names()) {
            let mut rows = Vec::new();
            for metric in &group.metrics {
                add(&mut rows, named(&metric.metric), &metric.table);
            }
            add(&mut rows, "Valid Max Concurrency Summary", &group.summary);
            // The first sheet has this name already.
            let name = if name.eq_ignore_ascii_case("environment") { format!("{name}_2") } else { name };
            sheets.push(Sheet { name, rows });
        }
        write(path, &sheets)
    }
}

/// Appends a table with a column for the section.
fn add(rows: &mut Vec<SheetRow>, section: &str, table: &Table) {
    if !rows.is_empty() {
        rows.push(SheetRow::plain(Vec::new()));
    }
    let line = |first: &str, cells: Vec<Value>, heading| {
        let cells = std::iter::once(Value::from(first)).chain(cells).collect();
        SheetRow { cells, heading }
    };
    rows.push(line("Section", table.headings.iter().map(|heading| Value::from(heading.as_str())).collect(), true));
    rows.extend(table.rows.iter().map(|cells| line(section, cells.clone(), false)));
}

/// The report of `vllm collect-env` as rows of section, key and value.
fn environment_rows(text: Option<&str>) -> Vec<SheetRow> {
    let row = |cells: [&str; 3], heading| SheetRow { cells: cells.map(Value::from).to_vec(), heading };
    let mut rows = vec![row(["Section", "Key", "Value"], true)];
    let Some(text) = text else {
        rows.push(row(["Environment", "vllm_env.txt", "not found"], false));
        return rows;
    };
    let mut section = String::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && line.chars().any(|c| c != '=')) {
        let pair = line.split_once(':').or_else(|| line.split_once('='));
        match pair {
            Some((key, value)) => rows.push(row([&section, key.trim(), value.trim()], false)),
            None if line.chars().count() <= 64 => section = line.to_owned(),
            None => rows.push(row([&section, line, ""], false)),
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_environment_has_sections() {
        let text = "=====\n  System Info\n=====\nOS : Linux\nA=1\n\nURL: http://x";
        let rows: Vec<Vec<String>> = environment_rows(Some(text))
            .iter()
            .map(|row| row.cells.iter().map(|cell| cell.as_str().unwrap_or_default().to_owned()).collect())
            .collect();
        assert_eq!(rows[1], ["System Info", "OS", "Linux"]);
        assert_eq!(rows[2], ["System Info", "A", "1"]);
        assert_eq!(rows[3], ["System Info", "URL", "http://x"]);
        assert_eq!(environment_rows(None)[1].cells[2], Value::from("not found"));
    }
}
