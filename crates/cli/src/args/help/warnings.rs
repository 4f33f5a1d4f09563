//! `tacho help warnings` and `tacho help CODE`. The reference page is the single source.

use tacho_args::help::{columns, paragraph};

const PAGE: &str = include_str!("../../../../../docs/reference/warnings.md");

/// A row of the page's tables.
struct Row {
    code: String,
    meaning: String,
    appears: String,
    remedy: String,
}

fn rows() -> impl Iterator<Item = Row> {
    PAGE.lines().filter_map(|line| {
        let cells: Vec<String> = line.strip_prefix("| `")?.trim_end_matches(" |").split(" | ").map(plain).collect();
        let [code, meaning, appears, remedy] = <[String; 4]>::try_from(cells).ok()?;
        Some(Row { code, meaning, appears, remedy })
    })
}

/// The text of Markdown: without code marks, and of links only the titles.
fn plain(cell: &str) -> String {
    let mut out = String::new();
    let mut rest = cell;
    while let Some((before, link)) = rest.split_once('[') {
        let Some((title, (_, after))) =
            link.split_once("](").and_then(|(title, url)| Some((title, url.split_once(')')?)))
        else {
            break;
        };
        out += before;
        out += title;
        rest = after;
    }
    (out + rest).replace('`', "")
}

/// Every code with its meaning.
pub(super) fn listing(width: usize) -> String {
    let rows: Vec<Row> = rows().collect();
    let column = rows.iter().map(|row| row.code.len()).max().unwrap_or(0).min(width / 3);
    rows.iter().map(|row| columns(&row.code, &row.meaning, column, width)).collect()
}

/// What a warning means, when it appears, and what to do.
pub(crate) fn explained(code: &str, width: usize) -> Option<String> {
    let Row { code, meaning, appears, remedy } = rows().find(|row| row.code == code)?;
    let facts = [("appears when", appears), ("what to do", remedy)];
    let facts = facts.iter().map(|(name, text)| columns(name, text, 12, width));
    Some(format!("warning[{code}]\n\n{}\n\n{}", paragraph(&meaning, width), facts.collect::<String>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_warning_is_explained() {
        for (code, _) in tacho_metrics::Caveat::CODES {
            assert!(explained(code, 80).is_some_and(|text| !text.contains('`')), "{code} is not in the page");
        }
        assert!(explained("nosuch", 80).is_none() && listing(80).contains("queue_unstable"));
    }
}
