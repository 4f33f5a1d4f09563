//! The dataset card, `README.md`: which files belong to which split of which configuration.

use saphyr_parser::{Event, Parser};
use tacho_core::json::{Dict, Value};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Configuration {
    pub(crate) name: String,
    pub(crate) default: bool,
    /// Splits and their file patterns.
    pub(crate) splits: Vec<(String, Vec<String>)>,
}

/// The configurations in the card's front matter; empty without front matter, or if it is not YAML.
pub(crate) fn configurations(card: &str) -> Vec<Configuration> {
    let Some(rest) = card.strip_prefix("---\n") else { return Vec::new() };
    let Some((front, _)) = rest.split_once("\n---") else { return Vec::new() };
    let configs = yaml(front).and_then(|value| value.get("configs").cloned());
    configs.as_ref().and_then(Value::as_list).unwrap_or_default().iter().filter_map(configuration).collect()
}

fn configuration(config: &Value) -> Option<Configuration> {
    let directory =
        config.get("data_dir").and_then(Value::as_str).map(|directory| format!("{}/", directory.trim_matches('/')));
    let patterns = |paths: &Value| -> Vec<String> {
        let one = std::slice::from_ref(paths);
        let texts = paths.as_list().unwrap_or(one).iter().filter_map(Value::as_str);
        texts.map(|path| format!("{}{path}", directory.as_deref().unwrap_or_default())).collect()
    };
    let files = config.get("data_files");
    let entries =
        files.and_then(Value::as_list).filter(|entries| entries.iter().all(|entry| entry.as_dict().is_some()));
    let splits = match (files, entries) {
        (_, Some(entries)) => entries
            .iter()
            .filter_map(|entry| Some((entry.get("split")?.as_str()?.to_owned(), patterns(entry.get("path")?))))
            .collect(),
        (Some(files), None) => vec![("train".to_owned(), patterns(files))],
        (None, None) => Vec::new(),
    };
    let name = config.get("config_name").and_then(Value::as_str).unwrap_or("default").to_owned();
    let default = config.get("default").and_then(Value::as_str) == Some("true") || name == "default";
    Some(Configuration { name, default, splits })
}

/// Parses a document of mappings, lists and strings.
fn yaml(text: &str) -> Option<Value> {
    let mut events = Parser::new_from_str(text).map_while(Result::ok).map(|(event, _)| event);
    loop {
        match events.next()? {
            Event::StreamStart | Event::DocumentStart(_) => {}
            event => return node(event, &mut events),
        }
    }
}

fn node<'e>(event: Event<'e>, events: &mut impl Iterator<Item = Event<'e>>) -> Option<Value> {
    match event {
        Event::Scalar(text, ..) => Some(Value::Str(text.into_owned())),
        Event::SequenceStart(..) => {
            let mut items = Vec::new();
            loop {
                match events.next()? {
                    Event::SequenceEnd => return Some(Value::List(items)),
                    event => items.push(node(event, events)?),
                }
            }
        }
        Event::MappingStart(..) => {
            let mut dict = Dict::new();
            loop {
                match events.next()? {
                    Event::MappingEnd => return Some(Value::Dict(dict)),
                    Event::Scalar(key, ..) => {
                        let event = events.next()?;
                        dict.set(key.into_owned(), node(event, events)?);
                    }
                    _ => return None,
                }
            }
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations_name_their_files() {
        let card = "---\nlicense: mit\nconfigs:\n- config_name: a\n  data_files:\n  - split: test\n    path: [x/*, y]\n\
                    - config_name: b\n  default: true\n  data_dir: d\n  data_files: \"z.csv\"\n---\n# Title\n";
        let found = configurations(card);
        assert_eq!(found[0].splits, [("test".to_owned(), vec!["x/*".to_owned(), "y".to_owned()])]);
        assert_eq!((found[0].default, found[1].default), (false, true));
        assert_eq!(found[1].splits, [("train".to_owned(), vec!["d/z.csv".to_owned()])]);
        assert!(configurations("# no front matter").is_empty());
    }
}
