//! HTML pages: each a single file that loads nothing else.

mod distributions;
mod figure;
pub(crate) mod hero;
pub mod run;
pub mod timeline;

use std::{fmt, io, io::Write};

use base64::{Engine, engine::general_purpose::STANDARD};
use flate2::{Compression, write::ZlibEncoder};
use tacho_core::json::Value;

pub(crate) use self::distributions::distributions;
pub(crate) use self::figure::Figures;
pub use self::hero::{Head, Tone};
use crate::plots::Chart;
pub use crate::style::escape;
use crate::style::short;
use crate::tables::markdown::{Table, plain};

const STYLE: &str = include_str!("html/page.css");
const DRAW: &str = include_str!("html/draw.js");
const FIGURES: &str = include_str!("html/figures.js");

/// JSON text that cannot end its script element.
pub(crate) fn in_script(json: &str) -> String {
    json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

/// Compressed bytes for a page's script.
pub(crate) fn packed(bytes: &[u8]) -> io::Result<String> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::new(6));
    encoder.write_all(bytes)?;
    Ok(STANDARD.encode(encoder.finish()?))
}

/// The parts of a page other than the common script library.
pub(crate) struct Document<'a> {
    pub(crate) title: &'a str,
    /// Additions to the content security policy; mostly empty.
    pub(crate) policy: &'a str,
    pub(crate) body: &'a str,
    pub(crate) data: &'a str,
    pub(crate) script: &'a str,
}

/// The page as a single file that loads nothing else.
impl fmt::Display for Document<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Document { policy, body, data, script, .. } = self;
        write!(
            f,
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'unsafe-inline'; \
             style-src 'unsafe-inline'{policy}\">\n<meta name=\"referrer\" content=\"no-referrer\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n{body}{data}\
             <script>\n{DRAW}</script>\n<script>\n{script}</script>\n</body>\n</html>\n",
            escape(self.title)
        )
    }
}

/// A page with a head, texts, tables and figures.
pub(crate) fn page(head: &Head, body: &str, figures: Figures) -> String {
    let body = format!("<header>\n{}</header>\n<main>\n{body}</main>\n", head.html());
    let figures = in_script(&tacho_core::json::dumps(&figures.into_value()));
    let data = format!("<script type=\"application/json\" id=\"figures\">{figures}</script>\n");
    Document { title: &head.title, policy: "", body: &body, data: &data, script: FIGURES }.to_string()
}

/// A table that scrolls by itself; `class` styles the cell of a row and a column.
pub(crate) fn html_table(table: &Table, class: impl Fn(usize, usize) -> &'static str) -> String {
    let numeric = |at: usize| table.rows.iter().any(|row| row.get(at).is_some_and(|value| value.as_f64().is_some()));
    let heading = |(at, heading): (usize, &String)| {
        format!("<th{}>{}</th>", if numeric(at) { " class=\"n\"" } else { "" }, escape(heading))
    };
    let headings: String = table.headings.iter().enumerate().map(heading).collect();
    let cell = |row: usize, (at, value): (usize, &Value)| {
        let text = match value {
            Value::Float(number) if number.abs() >= 999.5 => short(*number),
            Value::Float(number) if number.is_finite() => format!("{number:.2}"),
            other => escape(&plain(other)),
        };
        let number = if value.as_f64().is_some() { "n " } else { "" };
        format!("<td class=\"{number}{}\">{text}</td>", class(row, at))
    };
    let row = |(row, cells): (usize, &Vec<Value>)| {
        let cells: String = cells.iter().enumerate().map(|one| cell(row, one)).collect();
        format!("<tr>{cells}</tr>\n")
    };
    let rows: String = table.rows.iter().enumerate().map(row).collect();
    format!(
        "<div class=\"wide\" tabindex=\"0\"><table class=\"cells\"><thead><tr>{headings}</tr></thead><tbody>\n\
         {rows}</tbody></table></div>\n"
    )
}

pub(crate) fn facts_table<T: AsRef<str>>(facts: impl IntoIterator<Item = (T, T)>) -> String {
    let row = |(name, value): (T, T)| {
        format!("<tr><th>{}</th><td>{}</td></tr>", escape(name.as_ref()), escape(value.as_ref()))
    };
    let known = facts.into_iter().filter(|(_, value)| !value.as_ref().is_empty());
    format!("<table class=\"facts\">{}</table>", known.map(row).collect::<String>())
}

/// A page of charts, each with panels in a grid under a heading, and the table behind it.
pub fn chart_page(head: &Head, charts: &[Chart]) -> String {
    let mut figures = Figures::default();
    let mut body = String::new();
    for chart in charts {
        body += &format!("<h2>{}</h2>\n", escape(&chart.title));
        let note = format!("{} Drag to zoom, double-click to reset; click a name to hide it.", chart.note);
        body += &format!("<p class=\"note\">{}</p>\n", escape(note.trim()));
        let places: String = chart.panels.iter().map(|panel| figures.panel(panel, &chart.title)).collect();
        body += &format!("<div class=\"grid\">{places}</div>\n");
        if !chart.table.rows.is_empty() {
            body += &html_table(&chart.table, |_, _| "");
        }
    }
    page(head, &body, figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_of_others_stays_text() {
        assert_eq!(escape("<script>\"a\" & 'b'\u{202e}"), "&lt;script&gt;&quot;a&quot; &amp; &#39;b&#39;\\u202e");
    }
}
