//! Flags of `tacho backend check`, `init` and `list`.

use std::{path::Path, time::Duration};

use tacho_args::Error;
use tacho_args::declare::*;
use tacho_client::BackendKind;
use tacho_client::backends::{BUILT_IN_FILES, built_in_file};
use tacho_core::{json::Value, secret::Secret};

use super::error::{ArgError, UsageError};
use super::shared::sign_in::{self, SignInArgs};

static CHECK: Group = group("check options", "check options", "The file, the server and the request.");
static OUTPUT: Group = group("options", "options", "Output.");

pub(crate) static CHECK_TABLE: Table = Table {
    command: "tacho backend check",
    about: "Send one request as a backend file says, and show what each of its selectors found in the response.",
    examples: &[(
        "tacho backend check my-api.yaml --base-url http://localhost:8000 --model m",
        "exit code 1 if the text or the end of the response is not found",
    )],
    groups: &[&CHECK, &sign_in::SIGN_IN],
    flags: rows!(&[HELP], CHECKED, sign_in::FLAGS),
    ..Table::PLAIN
};

flags! {
    BackendCheckArgs? {
        CHECKED [
            backend: BackendKind = tacho(&["FILE"], Rest(1), "FILE", Unset, &CHECK, "The backend file.").required() => file;
            base_url: String = tacho(&["--base-url"], Str, "URL", Unset, &CHECK, "Server address with scheme.").required();
            model: Option<String> = tacho(&["--model"], Str, "NAME", Unset, &CHECK,
                "Model to request (default: the first one that the file's model list names).");
            prompt: String = tacho(&["--prompt"], Str, "TEXT", DefaultValue::Str("Write a short story about a lighthouse."), &CHECK,
                "The prompt.");
            max_tokens: i64 = tacho(&["--max-tokens"], Int, "TOKENS", DefaultValue::Int(16), &CHECK, "Maximum output tokens.")
                .between(1.0, 1e6);
            extra_body: Option<Value> = tacho(&["--extra-body"], Json, "JSON", Unset, &CHECK,
                "Members to add to the body, as in tacho serve.");
            api_key: Option<Secret> = tacho(&["--api-key"], Str, "KEY", Unset, &CHECK,
                "API key, sent as the file says (default: $OPENAI_API_KEY).");
            header: Option<Vec<String>> = tacho(&["--header"], AnyNumber, "KEY=VALUE", Unset, &CHECK, "Further headers.");
            insecure: bool = switch(&["--insecure"], &CHECK, "Do not verify the server's TLS certificate.");
            timeout: Duration = tacho(&["--timeout"], Seconds, "SEC", DefaultValue::Float(120.0), &CHECK,
                "Timeout of the request.").positive();
            all_events: bool = switch(&["--all-events"], &CHECK, "Show all events instead of the first and the last ones.");
        ]
        ..sign_in: SignInArgs;
    }
}

fn file(setting: Setting<'_>) -> Result<BackendKind, Error> {
    let name = setting.value.as_list().and_then(|args| args.first()?.as_str()).unwrap_or_default();
    BackendKind::from_file(Path::new(name)).map_err(|error| Error::Refused(Box::new(error)))
}

pub(crate) static INIT_TABLE: Table = Table {
    command: "tacho backend init",
    about: "Print a built-in backend as a file, to start from.",
    examples: &[("tacho backend init openai-chat > my-api.yaml", "then: tacho serve --backend my-api.yaml")],
    groups: &[&OUTPUT],
    flags: rows!(&[HELP], NAMES),
    ..Table::PLAIN
};

flags! {
    InitFlags {
        NAMES [
            name: Vec<String> = tacho(&["NAME"], Rest(1), "NAME", Unset, &OUTPUT,
                "The built-in backend. `tacho backend list` shows which ones can be written as a file.").required();
        ]
    }
}

/// The file of `tacho backend init`.
pub(crate) fn init(values: &Values) -> Result<&'static str, ArgError> {
    let value = InitFlags::from(values).name.concat();
    let choices = BUILT_IN_FILES.iter().map(|(name, _)| *name).collect();
    let command = INIT_TABLE.command;
    let unknown =
        |value| ArgError::Usage { command, error: UsageError::BadChoice { flag: "NAME".to_owned(), value, choices } };
    built_in_file(&value).ok_or_else(|| unknown(value))
}

pub(crate) static LIST_TABLE: Table = Table {
    command: "tacho backend list",
    about: "List the built-in backends, their paths, and which can be written as a file.",
    examples: &[("tacho backend list", "one line per backend")],
    groups: &[&OUTPUT],
    flags: &[HELP],
    ..Table::PLAIN
};
