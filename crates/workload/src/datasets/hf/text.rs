//! Any dataset with a column of texts.

use tacho_core::Request;

use super::Context;
use crate::{Error, sources::cell::Cell, sources::table::Row};

const OUTPUT_LEN: i64 = 256;

pub(super) fn request(context: &Context<'_>, row: &Row) -> Result<Request, Error> {
    let column = context.column.unwrap_or("text");
    match row.at(column) {
        Some(Cell::Text(text)) => context.text(text.clone(), context.output_len(OUTPUT_LEN)),
        _ => Err(row.no_text(column)),
    }
}

#[cfg(test)]
mod tests {
    use tacho_text::HubCache;

    use super::super::{HfSpec, HfTextSpec, sample_text};
    use super::*;
    use crate::requests::carrier::Carrier;
    use crate::sampling::context::with_builtin;
    use crate::sampling::selection::Selection;
    use crate::sources::order::StreamOrder;

    fn made(column: &str) -> Result<Vec<Request>, Error> {
        let directory = tempfile::tempdir().unwrap();
        let lines = "{\"q\": \"one\", \"chat\": [{\"value\": \"two\"}], \"n\": 1}\n";
        std::fs::write(directory.path().join("train.jsonl"), lines).unwrap();
        let selection = Selection { num_prompts: 1, shuffle: true, oversample: true, ..Selection::default() };
        let hf = HfSpec {
            path: directory.path().to_string_lossy().into_owned(),
            name: None,
            subset: None,
            split: None,
            output_len: None,
            selection,
            stream: true,
            stream_order: StreamOrder::Current,
            chat_template: false,
            multimodal_chat: false,
            carrier: Carrier { name: "openai", carries: &[] },
            blazedit_distance: (0.0, 1.0),
            audio_seconds: (0.0, 0.0),
            bfcl_categories: None,
            cache: HubCache::from_variables(|_| None),
        };
        let spec = HfTextSpec { hf, column: column.to_owned() };
        with_builtin(|context| sample_text(&spec, context)).map(|made| made.requests)
    }

    #[test]
    fn texts_are_found_by_name_and_place() {
        for (column, expected) in [("q", "one"), ("chat.0.value", "two")] {
            let requests = made(column).unwrap();
            assert_eq!(requests[0].content.to_json().as_str(), Some(expected));
            assert_eq!(requests[0].output_len, 256);
        }
    }

    #[test]
    fn other_columns_are_named() {
        for column in ["nope", "n", "chat.3.value"] {
            let error = made(column).unwrap_err().to_string();
            assert!(error.contains("q (text), chat (list), n (number)"), "{error}");
        }
    }
}
