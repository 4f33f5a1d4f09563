//! What the parts of a comparison are called: sheets, tables, pages.

use super::join::{Comparison, Group};
use crate::tables::workbook::sheet_names;

impl Group {
    fn value(&self, key: &str) -> &str {
        self.about.iter().find(|(name, _)| name == key).map_or("", |(_, value)| value)
    }

    /// The name of its sheet: the model and the lengths.
    fn sheet(&self) -> String {
        let model = self.value("Model").rsplit('/').next().unwrap_or_default();
        let model = if model.is_empty() { "results" } else { model };
        match (self.value("Input Len"), self.value("Output Len")) {
            ("", "") => model.to_owned(),
            (input, output) => format!("{model}_{input}x{output}"),
        }
    }

    /// The end of the name of its own page.
    pub fn page_name(&self) -> String {
        let values: Vec<&str> = self.about.iter().map(|(_, value)| value.as_str()).collect();
        let clean = |c: char| match c {
            ',' => '_',
            '/' => '-',
            c if c.is_control() => '_',
            c => c,
        };
        values.join("_").chars().map(clean).take(150).collect()
    }
}

impl Comparison {
    /// The names of the groups' sheets.
    pub(super) fn sheet_names(&self) -> Vec<String> {
        sheet_names(&self.groups.iter().map(Group::sheet).collect::<Vec<_>>())
    }
}
