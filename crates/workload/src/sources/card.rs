//! The dataset card, `README.md`: which files belong to which split of which configuration.

use tacho_core::yaml::{self, Node};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Configuration {
    pub(crate) name: String,
    pub(crate) default: bool,
    pub(crate) splits: Vec<(String, Vec<String>)>,
}

/// The configurations in the card's front matter; empty without front matter, or if it is not YAML.
pub(crate) fn configurations(card: &str) -> Vec<Configuration> {
    let Some(rest) = card.strip_prefix("---\n") else { return Vec::new() };
    let Some((front, _)) = rest.split_once("\n---") else { return Vec::new() };
    let Ok(Some(front)) = yaml::document(front) else { return Vec::new() };
    front.get("configs").and_then(Node::items).unwrap_or_default().iter().map(configuration).collect()
}

fn configuration(config: &Node) -> Configuration {
    let text = |name: &str| config.get(name).and_then(Node::text);
    let directory = text("data_dir").map(|directory| format!("{}/", directory.trim_matches('/')));
    let patterns = |paths: &Node| -> Vec<String> {
        let one = std::slice::from_ref(paths);
        let texts = paths.items().unwrap_or(one).iter().filter_map(Node::text);
        texts.map(|path| format!("{}{path}", directory.as_deref().unwrap_or_default())).collect()
    };
    let files = config.get("data_files");
    let entries = files.and_then(Node::items).filter(|entries| entries.iter().all(|entry| entry.text().is_none()));
    let splits = match (files, entries) {
        (_, Some(entries)) => entries
            .iter()
            .filter_map(|entry| Some((entry.get("split")?.text()?.to_owned(), patterns(entry.get("path")?))))
            .collect(),
        (Some(files), None) => vec![("train".to_owned(), patterns(files))],
        (None, None) => Vec::new(),
    };
    let name = text("config_name").unwrap_or("default").to_owned();
    let default = text("default") == Some("true") || name == "default";
    Configuration { name, default, splits }
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
