//! Detection of secret names in any spelling: `X-Api-Key`, `api_key`, `apiKey`, `OPENAI_API_KEY`.

/// Words that make a name secret at any position.
const ALWAYS: &[&str] = &[
    "apikey",
    "auth",
    "authentication",
    "authorization",
    "bearer",
    "cookie",
    "cookies",
    "credential",
    "credentials",
    "jwt",
    "passphrase",
    "passwd",
    "password",
    "pwd",
    "secret",
    "secrets",
    "sig",
    "signature",
];

/// Suffixes of secret names written as one word.
const ENDINGS: &[&str] = &[
    "accesskey",
    "accesstoken",
    "apikey",
    "authtoken",
    "passwd",
    "password",
    "privatekey",
    "secretkey",
    "sessiontoken",
];

/// Words before `token` that mean a token of a vocabulary.
const VOCABULARY: &[&str] =
    &["bos", "cls", "eos", "mask", "pad", "per", "sep", "special", "start", "stop", "unk", "image", "decoder"];

/// Words before `key` that mean an identifier.
const LABELS: &[&str] =
    &["cache", "foreign", "group", "idempotency", "partition", "primary", "routing", "session", "sort"];

/// Flags with the name of a secret whose value is the path of a file.
const PATHS: &[&str] = &["client_key", "oauth_client_secret_file"];

/// Whether a flag, by its name with or without dashes, takes a secret.
pub fn is_secret_flag(name: &str) -> bool {
    is_secret_name(name) && !PATHS.contains(&name.trim_start_matches('-').replace('-', "_").to_lowercase().as_str())
}

/// Whether a header, query parameter, body field or variable with this name holds a secret. Doubtful names count as
/// secret.
pub fn is_secret_name(name: &str) -> bool {
    let words = words(name);
    let squeezed = words.concat();
    let before_last = words.len().checked_sub(2).map(|at| words[at].as_str());
    let last_is_secret = match words.last().map(String::as_str) {
        Some("token") => !before_last.is_some_and(|word| VOCABULARY.contains(&word)),
        Some("key") => !before_last.is_some_and(|word| LABELS.contains(&word)),
        _ => false,
    };
    last_is_secret
        || words.iter().any(|word| ALWAYS.contains(&word.as_str()))
        || ENDINGS.iter().any(|ending| squeezed.ends_with(ending))
}

/// Beginnings of keys and tokens that their issuers give them.
const PREFIXES: &[&str] =
    &["sk-", "hf_", "ghp_", "github_pat_", "glpat-", "xoxb-", "AKIA", "ASIA", "eyJ", "nvapi-", "gsk_"];

/// Whether a word of unknown meaning may be a key or token: it has the beginning of one, or looks random.
pub fn looks_secret(word: &str) -> bool {
    let kind = |c: char| (c.is_ascii_digit(), c.is_uppercase());
    let looks_random = |part: &str| {
        let changes = part.chars().zip(part.chars().skip(1)).filter(|(a, b)| kind(*a) != kind(*b)).count();
        part.len() >= 8 && changes >= 4 || part.len() >= 24 && changes >= 2
    };
    PREFIXES.iter().any(|prefix| word.len() >= 8 && word.starts_with(prefix))
        || word.split(|c: char| !c.is_alphanumeric()).any(looks_random)
}

/// The words of a name in lower case, split at non-alphanumeric characters and at camel-case boundaries.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let letters: Vec<char> = name.chars().collect();
    for (at, &letter) in letters.iter().enumerate() {
        let before = at.checked_sub(1).map(|at| letters[at]);
        let hump = letter.is_uppercase()
            && (before.is_some_and(|c| c.is_lowercase() || c.is_ascii_digit())
                || (before.is_some_and(char::is_uppercase) && letters.get(at + 1).is_some_and(|c| c.is_lowercase())));
        if hump || !letter.is_alphanumeric() {
            words.push(String::new());
        }
        if letter.is_alphanumeric() {
            words.last_mut().expect("there is always one").extend(letter.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_known_in_every_spelling() {
        let names = "Authorization authorization Proxy-Authorization X-Api-Key x_api_key apiKey APIKey apikey xapikey \
            OPENAI_API_KEY api-key Ocp-Apim-Subscription-Key key access_key secretAccessKey token HF_TOKEN \
            access_token accesstoken X-Auth-Token authToken X-Amz-Security-Token X-Amz-Signature sig password \
            db_password dbpassword PGPASSWD pwd client_secret clientSecret Cookie Set-Cookie credentials \
            X-Goog-Api-Key auth cf-access-jwt my.token TACHO_RENDEZVOUS_TOKEN";
        for name in names.split(' ') {
            assert!(is_secret_name(name), "{name}");
        }
    }

    #[test]
    fn flags_that_name_files_take_no_secrets() {
        for flag in ["--client-key", "client_key", "CLIENT_KEY", "--oauth-client-secret-file"] {
            assert!(is_secret_name(flag) && !is_secret_flag(flag), "{flag}");
        }
        assert!(is_secret_flag("--api-key") && !is_secret_flag("--token-command") && !is_secret_flag("--seed"));
    }

    #[test]
    fn keys_are_told_from_ordinary_words() {
        for word in
            ["sk-abcdefgh", "tok-Zr5mPq8Kx1", "pw83hTzz41", "eyJhbGciOiJub25lIn0.e30.c2ln", "9f86d081884c7d659a2feaa0"]
        {
            assert!(looks_secret(word), "{word}");
        }
        let words = "Qwen3-8B-Instruct meta-llama/Llama-3.1-8B --num-prompts results.json 127.0.0.1:8000 --save-detailed \
            openai-chat skip 2026-11-18T01:06:45";
        for word in words.split(' ') {
            assert!(!looks_secret(word), "{word}");
        }
    }

    #[test]
    fn ordinary_names_are_left_alone() {
        let names = "max_tokens max_completion_tokens stop_token_ids prompt_tokens eos_token padToken prompt_cache_key \
            idempotency-key tokenizer token_ids return_token_ids keys keyboard author x-request-id model \
            return_tokens_as_token_ids design monkey Content-Type";
        for name in names.split(' ').chain([""]) {
            assert!(!is_secret_name(name), "{name}");
        }
    }
}
