//! Workbooks for spreadsheet programs: sheets of strings and numbers in the Office Open XML format (ECMA-376), with
//! as few parts as possible.

use std::path::Path;

use tacho_core::json::Value;
use tacho_record::zip::Zip;

use crate::{Error, json::write_whole, style::harmless_line, tables::markdown::plain};

const DECLARATION: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"yes\"?>\n";
const MAIN: &str = "http://schemas.openxmlformats.org/spreadsheetml/2006/main";
const RELATIONS: &str = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";
const PACKAGE: &str = "http://schemas.openxmlformats.org/package/2006";

const NAME_LENGTH: usize = 31;

#[derive(Debug, Clone, PartialEq)]
pub struct SheetRow {
    /// Its cells; null is an empty one.
    pub cells: Vec<Value>,
    pub heading: bool,
}

impl SheetRow {
    pub(crate) fn plain(cells: Vec<Value>) -> Self {
        SheetRow { cells, heading: false }
    }

    pub(crate) fn heading(cells: Vec<Value>) -> Self {
        SheetRow { cells, heading: true }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Sheet {
    /// Its name: valid for a sheet and unique in the workbook.
    pub name: String,
    pub rows: Vec<SheetRow>,
}

/// Valid sheet names: short enough, without forbidden characters, and unique.
pub fn sheet_names(wanted: &[String]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for name in wanted {
        let clean: String =
            name.chars().map(|c| if r":\/?*[]".contains(c) || c.is_control() { '_' } else { c }).collect();
        let clean = if clean.is_empty() { "Sheet".to_owned() } else { clean };
        let cut = |length: usize| clean.chars().take(length).collect::<String>();
        let numbered = (2..).map(|number| {
            let ending = format!("_{number}");
            cut(NAME_LENGTH - ending.len()) + &ending
        });
        // Sheet names are case-insensitive.
        let taken = |name: &String| names.iter().any(|other| other.to_lowercase() == name.to_lowercase());
        let free = std::iter::once(cut(NAME_LENGTH)).chain(numbered).find(|name| !taken(name));
        names.extend(free);
    }
    names
}

pub fn write(path: &Path, sheets: &[Sheet]) -> Result<(), Error> {
    let mut zip = Zip::default();
    zip.add("[Content_Types].xml", content_types(sheets.len()).as_bytes());
    zip.add("_rels/.rels", relations(&[("officeDocument", "xl/workbook.xml".to_owned())]).as_bytes());
    zip.add("xl/workbook.xml", workbook(sheets).as_bytes());
    let mut parts: Vec<(&str, String)> =
        (1..=sheets.len()).map(|number| ("worksheet", format!("worksheets/sheet{number}.xml"))).collect();
    parts.push(("styles", "styles.xml".to_owned()));
    zip.add("xl/_rels/workbook.xml.rels", relations(&parts).as_bytes());
    zip.add("xl/styles.xml", styles().as_bytes());
    for (at, sheet) in sheets.iter().enumerate() {
        zip.add(&format!("xl/worksheets/sheet{}.xml", at + 1), worksheet(sheet).as_bytes());
    }
    let bytes = zip.finish();
    write_whole(path, |out| std::io::Write::write_all(out, &bytes))
}

fn content_types(sheets: usize) -> String {
    let kind = "application/vnd.openxmlformats-officedocument.spreadsheetml";
    let mut out = format!(
        "{DECLARATION}<Types xmlns=\"{PACKAGE}/content-types\">\
         <Default Extension=\"rels\" ContentType=\"application/vnd.openxmlformats-package.relationships+xml\"/>\
         <Override PartName=\"/xl/workbook.xml\" ContentType=\"{kind}.sheet.main+xml\"/>\
         <Override PartName=\"/xl/styles.xml\" ContentType=\"{kind}.styles+xml\"/>"
    );
    for number in 1..=sheets {
        let part = format!("/xl/worksheets/sheet{number}.xml");
        out += &format!("<Override PartName=\"{part}\" ContentType=\"{kind}.worksheet+xml\"/>");
    }
    out + "</Types>"
}

fn relations(parts: &[(&str, String)]) -> String {
    let mut out = format!("{DECLARATION}<Relationships xmlns=\"{PACKAGE}/relationships\">");
    for (at, (kind, target)) in parts.iter().enumerate() {
        let id = at + 1;
        out += &format!("<Relationship Id=\"rId{id}\" Type=\"{RELATIONS}/{kind}\" Target=\"{target}\"/>");
    }
    out + "</Relationships>"
}

fn workbook(sheets: &[Sheet]) -> String {
    let mut out = format!("{DECLARATION}<workbook xmlns=\"{MAIN}\" xmlns:r=\"{RELATIONS}\"><sheets>");
    for (at, sheet) in sheets.iter().enumerate() {
        let (name, id) = (escape(&sheet.name), at + 1);
        out += &format!("<sheet name=\"{name}\" sheetId=\"{id}\" r:id=\"rId{id}\"/>");
    }
    out + "</sheets></workbook>"
}

/// Two styles of cells: plain, and bold for headings.
fn styles() -> String {
    let font = |bold: &str| format!("<font>{bold}<sz val=\"11\"/><name val=\"Calibri\"/></font>");
    let cell = |font: u8| format!("<xf numFmtId=\"0\" fontId=\"{font}\" fillId=\"0\" borderId=\"0\" xfId=\"0\"/>");
    format!(
        "{DECLARATION}<styleSheet xmlns=\"{MAIN}\"><fonts count=\"2\">{}{}</fonts>\
         <fills count=\"2\"><fill><patternFill patternType=\"none\"/></fill>\
         <fill><patternFill patternType=\"gray125\"/></fill></fills>\
         <borders count=\"1\"><border/></borders><cellStyleXfs count=\"1\">\
         <xf numFmtId=\"0\" fontId=\"0\" fillId=\"0\" borderId=\"0\"/></cellStyleXfs>\
         <cellXfs count=\"2\">{}{}</cellXfs></styleSheet>",
        font(""),
        font("<b/>"),
        cell(0),
        cell(1)
    )
}

fn worksheet(sheet: &Sheet) -> String {
    let columns = sheet.rows.iter().map(|row| row.cells.len()).max().unwrap_or(0);
    let mut out = format!("{DECLARATION}<worksheet xmlns=\"{MAIN}\">");
    if columns > 0 {
        out.push_str("<cols>");
        for at in 0..columns {
            let widest = sheet.rows.iter().filter_map(|row| row.cells.get(at)).map(|cell| plain(cell).chars().count());
            let width = widest.max().unwrap_or(0).clamp(8, 60) + 2;
            let number = at + 1;
            out += &format!("<col min=\"{number}\" max=\"{number}\" width=\"{width}\" customWidth=\"1\"/>");
        }
        out.push_str("</cols>");
    }
    out.push_str("<sheetData>");
    for (at, row) in sheet.rows.iter().enumerate() {
        out += &format!("<row r=\"{}\">", at + 1);
        for (column, value) in row.cells.iter().enumerate() {
            out += &cell(&format!("{}{}", letters(column), at + 1), value, row.heading);
        }
        out.push_str("</row>");
    }
    out + "</sheetData></worksheet>"
}

fn cell(place: &str, value: &Value, heading: bool) -> String {
    let style = if heading { " s=\"1\"" } else { "" };
    match value {
        Value::Int(number) => format!("<c r=\"{place}\"{style}><v>{number}</v></c>"),
        Value::Float(number) if number.is_finite() => format!("<c r=\"{place}\"{style}><v>{number}</v></c>"),
        Value::Null | Value::Float(_) => String::new(),
        other => {
            let text = escape(&plain(other));
            format!("<c r=\"{place}\"{style} t=\"inlineStr\"><is><t xml:space=\"preserve\">{text}</t></is></c>")
        }
    }
}

/// A, B, … Z, AA, …
fn letters(column: usize) -> String {
    let last = char::from(b'A' + (column % 26) as u8);
    if column < 26 { last.to_string() } else { letters(column / 26 - 1) + &last.to_string() }
}

/// Text as XML; characters that XML cannot represent are made visible.
fn escape(text: &str) -> String {
    let text = harmless_line(text);
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sheets_have_names_of_their_own() {
        let long = "m".repeat(40);
        let names = sheet_names(&["a/b:c".into(), "A_B_c".into(), long.clone(), long, String::new()]);
        assert_eq!(names[..2], ["a_b_c", "A_B_c_2"]);
        assert_eq!((names[2].len(), names[3].len()), (31, 31));
        assert!(names[3].ends_with("_2") && names[4] == "Sheet");
    }

    #[test]
    fn columns_are_counted_in_letters() {
        assert_eq!([0, 25, 26, 51, 52, 701, 702].map(letters), ["A", "Z", "AA", "AZ", "BA", "ZZ", "AAA"]);
    }

    #[test]
    fn cells_hold_numbers_and_hostile_texts() {
        assert_eq!(cell("A1", &Value::Float(1.5), false), "<c r=\"A1\"><v>1.5</v></c>");
        assert_eq!(cell("A1", &Value::Float(f64::NAN), false), "");
        let text = cell("B2", &Value::from("</t>\u{0}&"), true);
        assert!(text.contains("&lt;/t&gt;") && text.contains("&amp;") && !text.contains('\0'), "{text}");
    }
}
