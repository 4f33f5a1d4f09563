//! Selects the files of a model's tokenizer, never its weights.

use std::path::Path;

const SETTINGS: [&str; 6] = [
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "config.json",
    "generation_config.json",
    "chat_template.jinja",
];

/// Vocabularies that are used if there is no `tokenizer.json`.
const VOCABULARIES: [&str; 6] =
    ["tokenizer.model", "vocab.json", "merges.txt", "vocab.txt", "spiece.model", "sentencepiece.bpe.model"];

pub(super) fn of(names: &[String]) -> Vec<String> {
    let converted = names.iter().any(|name| name == "tokenizer.json");
    // Weights in Mistral's format make its own vocabulary the first choice; they are not downloaded, this file stands
    // for them.
    let mistral = names.iter().any(|name| name.starts_with("consolidated") && name.ends_with(".safetensors"));
    let wanted =
        |name: &&String| is_setting(name) || is_vocabulary(name, converted) || (mistral && *name == "params.json");
    names.iter().filter(wanted).cloned().collect()
}

fn is_setting(name: &str) -> bool {
    SETTINGS.contains(&name) || (name.starts_with("additional_chat_templates/") && name.ends_with(".jinja"))
}

/// Mistral's own vocabularies are kept next to a converted one; all others are replaced by it.
fn is_vocabulary(name: &str, converted: bool) -> bool {
    let mistral = name == "tekken.json" || name.starts_with("tokenizer.model.v");
    let slow = VOCABULARIES.contains(&name)
        || (name.ends_with(".tiktoken") && !name.contains('/'))
        || name == "tiktoken.model";
    name == "tokenizer.json" || mistral || (slow && !converted)
}

pub(super) fn any_vocabulary(directory: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(directory) else { return false };
    entries.filter_map(Result::ok).any(|entry| is_vocabulary(&entry.file_name().to_string_lossy(), false))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(names: &[&str]) -> Vec<String> {
        of(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn weights_are_left_and_slow_vocabularies_replaced() {
        let names =
            ["config.json", "model.safetensors", "tokenizer.json", "tokenizer.model", "vocab.json", "README.md"];
        assert_eq!(chosen(&names), ["config.json", "tokenizer.json"]);
        assert_eq!(chosen(&["tokenizer.model", "original/tokenizer.model"]), ["tokenizer.model"]);
        assert_eq!(chosen(&["tekken.json", "tokenizer.json"]), ["tekken.json", "tokenizer.json"]);
        assert_eq!(chosen(&["qwen.tiktoken", "additional_chat_templates/tool_use.jinja"]).len(), 2);
    }
}
