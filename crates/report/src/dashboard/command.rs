//! The flags of a recorded command line.

use tacho_core::{command::split, json::Value};

/// Flags and their values, without the dashes.
pub(super) struct Flags(Vec<(String, Value)>);

impl Flags {
    /// Reads a shell command; its first two words are the program.
    pub(super) fn parse(command: &str) -> Self {
        let args = split(command).unwrap_or_else(|_| command.split_whitespace().map(str::to_owned).collect());
        let mut flags = Vec::new();
        let mut at = 2;
        while let Some(word) = args.get(at) {
            at += 1;
            let Some(flag) = word.strip_prefix("--") else { continue };
            if let Some((name, value)) = flag.split_once('=') {
                flags.push((name.replace('_', "-"), typed(value)));
            } else if let Some(value) = args.get(at).filter(|next| !next.starts_with("--")) {
                flags.push((flag.replace('_', "-"), typed(value)));
                at += 1;
            } else {
                flags.push((flag.replace('_', "-"), Value::Bool(true)));
            }
        }
        Flags(flags)
    }

    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().rev().find(|(flag, _)| flag == name).map(|(_, value)| value)
    }
}

fn typed(text: &str) -> Value {
    let decimal = text.contains('.') && text.bytes().all(|byte| byte.is_ascii_digit() || b".-".contains(&byte));
    match text {
        "null" => Value::Null,
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        _ => match text.parse::<i64>() {
            Ok(number) => Value::Int(number),
            Err(_) => text.parse().ok().filter(|_| decimal).map_or_else(|| Value::from(text), Value::Float),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_types() {
        let flags = Flags::parse("vllm serve --a=1 --b_c 2.5 --d --e inf --a 3 --f x");
        assert_eq!(flags.get("a"), Some(&Value::Int(3)));
        assert_eq!(flags.get("b-c"), Some(&Value::Float(2.5)));
        assert_eq!(flags.get("d"), Some(&Value::Bool(true)));
        assert_eq!((flags.get("e"), flags.get("g")), (Some(&Value::from("inf")), None));
    }
}
