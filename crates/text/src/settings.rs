//! The files next to `tokenizer.json`: named special tokens and the clean-up of decoded text.

use std::path::Path;

use serde_json::{Map, Value};

use crate::{Error, class::effective, template::Templates};

/// Default special tokens of tokenizer classes, for files that do not name them: `bos=<s>` is the `bos_token`.
const CLASS_DEFAULTS: &[(&str, &str)] = &[
    ("GPT2Tokenizer", "unk=<|endoftext|> bos=<|endoftext|> eos=<|endoftext|>"),
    ("LlamaTokenizer", "unk=<unk> bos=<s> eos=</s>"),
    ("Qwen2Tokenizer", "unk=<|endoftext|> eos=<|endoftext|> pad=<|endoftext|>"),
    ("BertTokenizer", "unk=[UNK] sep=[SEP] pad=[PAD] cls=[CLS] mask=[MASK]"),
    ("RobertaTokenizer", "bos=<s> eos=</s> sep=</s> cls=<s> unk=<unk> pad=<pad> mask=<mask>"),
    ("T5Tokenizer", "eos=</s> unk=<unk> pad=<pad>"),
    ("XLMRobertaTokenizer", "bos=<s> eos=</s> sep=</s> cls=<s> unk=<unk> pad=<pad> mask=<mask>"),
    ("GemmaTokenizer", "unk=<unk> bos=<bos> eos=<eos> pad=<pad> mask=<mask>"),
];

#[derive(Debug, Clone, Default)]
pub(crate) struct Settings {
    /// The Python class that the library uses, without `Fast`; `None` for its general one.
    pub(crate) class: Option<String>,
    pub(crate) named_class: Option<String>,
    /// Attribute and text of each named special token; extra special tokens have an empty attribute.
    pub(crate) named: Vec<(String, String)>,
    /// Whether spaces before punctuation are removed from decoded text, for models other than BPE.
    pub(crate) clean_up_spaces: bool,
    pub(crate) templates: Templates,
    pub(crate) config: Map<String, Value>,
}

impl Settings {
    /// The special token with this attribute.
    pub(crate) fn token(&self, attribute: &str) -> Option<&str> {
        self.named.iter().find(|(known, _)| known == attribute).map(|(_, text)| text.as_str())
    }

    /// Reads `tokenizer_config.json`, `special_tokens_map.json` and `config.json` in `directory`, as far as they exist.
    pub(crate) fn read(directory: &Path) -> Result<Self, Error> {
        let mut config = read_object(&directory.join("tokenizer_config.json"))?;
        for (key, value) in read_object(&directory.join("special_tokens_map.json"))? {
            config.entry(key).or_insert(value);
        }
        let model = read_object(&directory.join("config.json"))?;
        let mut settings = Settings::new(&config, model.get("model_type").and_then(Value::as_str));
        settings.read_template_files(directory)?;
        Ok(settings)
    }

    /// Builds the settings from the tokenizer's config and the model type.
    pub(crate) fn new(config: &Map<String, Value>, model_type: Option<&str>) -> Self {
        let named = config.get("tokenizer_class").and_then(Value::as_str);
        let class = effective(named, model_type);
        let clean_up_spaces = config.get("clean_up_tokenization_spaces").is_some_and(|flag| flag == true);
        Settings {
            named: named_tokens(config, class.as_deref()),
            named_class: named.map(|name| name.strip_suffix("Fast").unwrap_or(name).to_owned()),
            class,
            clean_up_spaces,
            templates: templates(config),
            config: config.clone(),
        }
    }

    /// The tokenizer class of the model's own code, if it has any.
    pub(crate) fn remote_class(&self) -> Option<String> {
        let map = self.config.get("auto_map")?.get("AutoTokenizer")?;
        let names = map.as_array().map_or(std::slice::from_ref(map), Vec::as_slice);
        names.iter().rev().find_map(Value::as_str).map(str::to_owned)
    }

    /// Template files take precedence over the settings.
    fn read_template_files(&mut self, directory: &Path) -> Result<(), Error> {
        let main = directory.join("chat_template.jinja");
        if main.is_file() {
            self.templates.add("default", read_text(&main)?);
        }
        let Ok(entries) = std::fs::read_dir(directory.join("additional_chat_templates")) else { return Ok(()) };
        for path in entries.filter_map(|entry| entry.ok().map(|entry| entry.path())) {
            let name = path.file_stem().map(|name| name.to_string_lossy().into_owned());
            if let (Some(name), true) = (name, path.extension().is_some_and(|extension| extension == "jinja")) {
                self.templates.add(name, read_text(&path)?);
            }
        }
        Ok(())
    }
}

/// Every `*_token` entry that is a string, the class's defaults for missing attributes, and the extra special tokens.
/// Other added tokens are not named, special or not.
fn named_tokens(config: &Map<String, Value>, class: Option<&str>) -> Vec<(String, String)> {
    let mut named: Vec<(String, String)> = config
        .iter()
        .filter(|(key, _)| key.ends_with("_token"))
        .filter_map(|(key, value)| Some((key.clone(), token_text(value)?.to_owned())))
        .collect();
    let defaults = CLASS_DEFAULTS.iter().find(|(name, _)| Some(*name) == class).map_or("", |(_, tokens)| tokens);
    let defaults = defaults.split(' ').filter_map(|entry| entry.split_once('='));
    let defaults = defaults.map(|(name, token)| (format!("{name}_token"), token.to_owned()));
    named.extend(defaults.filter(|(attribute, _)| !config.contains_key(attribute)));
    for key in ["extra_special_tokens", "additional_special_tokens"] {
        let extra: Vec<&Value> = match config.get(key) {
            Some(Value::Array(tokens)) => tokens.iter().collect(),
            Some(Value::Object(tokens)) => tokens.values().collect(),
            _ => Vec::new(),
        };
        named.extend(extra.into_iter().filter_map(token_text).map(|token| (String::new(), token.to_owned())));
    }
    named
}

/// One template, or a list of named templates.
fn templates(config: &Map<String, Value>) -> Templates {
    let mut templates = Templates::default();
    match config.get("chat_template") {
        Some(Value::String(source)) => templates.add("default", source.as_str()),
        Some(Value::Array(entries)) => {
            for entry in entries {
                if let (Some(name), Some(source)) = (entry["name"].as_str(), entry["template"].as_str()) {
                    templates.add(name, source);
                }
            }
        }
        _ => {}
    }
    templates
}

fn read_text(path: &Path) -> Result<String, Error> {
    std::fs::read_to_string(path).map_err(|source| Error::Read { path: path.to_path_buf(), source })
}

/// A token is stored as its text or as an object with `content`.
pub(crate) fn token_text(value: &Value) -> Option<&str> {
    value.as_str().or_else(|| value["content"].as_str())
}

fn read_object(path: &Path) -> Result<Map<String, Value>, Error> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(source) if source.kind() == std::io::ErrorKind::NotFound => return Ok(Map::new()),
        Err(source) => return Err(Error::Read { path: path.to_path_buf(), source }),
    };
    serde_json::from_str(&text).map_err(|source| Error::NotJson { path: path.to_path_buf(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(config: &str, model_type: Option<&str>) -> Vec<String> {
        let config: Map<String, Value> = serde_json::from_str(config).unwrap();
        Settings::new(&config, model_type).named.into_iter().map(|(_, token)| token).collect()
    }

    #[test]
    fn named_tokens_are_texts_of_token_attributes() {
        let config =
            r#"{"bos_token": "<s>", "image_token": {"content": "<img>"}, "add_bos_token": true, "pad_token": null}"#;
        assert_eq!(named(config, None), ["<s>", "<img>"]);
        assert_eq!(named(r#"{"extra_special_tokens": ["a", {"content": "b"}]}"#, None), ["a", "b"]);
        assert_eq!(
            named(r#"{"additional_special_tokens": ["a"], "extra_special_tokens": {"x": "b"}}"#, None),
            ["b", "a"]
        );
    }

    #[test]
    fn class_defaults_fill_what_is_left_out() {
        assert_eq!(named(r#"{"model_max_length": 1024}"#, Some("gpt2")), ["<|endoftext|>"; 3]);
        let config = r#"{"tokenizer_class": "LlamaTokenizerFast", "unk_token": null, "bos_token": "<b>"}"#;
        assert_eq!(named(config, Some("gpt2")), ["<b>", "</s>"]);
    }
}
