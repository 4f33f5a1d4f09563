//! AWS keys, given or in the shared files of AWS's tools.

use std::path::PathBuf;

use tacho_core::Secret;

/// A pair of keys, and the session token of temporary ones.
#[derive(Debug, Clone)]
pub struct AwsKeys {
    pub id: Secret,
    pub secret: Secret,
    pub session: Option<Secret>,
}

impl AwsKeys {
    pub(in crate::sign_in) fn secrets(&self) -> impl Iterator<Item = &Secret> {
        [&self.id, &self.secret].into_iter().chain(&self.session)
    }
}

#[derive(Debug, Clone)]
pub enum AwsKeySource {
    Given(AwsKeys),
    /// A profile in the shared credentials file or, if it is not there, in the configuration file.
    Profile {
        name: String,
        credentials: PathBuf,
        config: PathBuf,
    },
}

impl AwsKeySource {
    /// Whether the keys may be others later.
    pub(in crate::sign_in) fn can_change(&self) -> bool {
        matches!(self, AwsKeySource::Profile { .. })
    }

    pub(in crate::sign_in) fn read(&self) -> Result<AwsKeys, String> {
        let (name, credentials, config) = match self {
            AwsKeySource::Given(keys) => return Ok(keys.clone()),
            AwsKeySource::Profile { name, credentials, config } => (name, credentials, config),
        };
        let read = |path: &PathBuf| tacho_core::files::read_settings_text(path);
        let (first, second) = (read(credentials), read(config));
        let keys = first.as_deref().ok().and_then(|text| profile(text, name));
        let section = if name == "default" { name.clone() } else { format!("profile {name}") };
        keys.or_else(|| profile(second.as_deref().ok()?, &section)).ok_or_else(|| {
            let path = credentials.display();
            let reason = match first {
                Ok(_) => format!("the profile {name:?} of {path} has no aws_access_key_id and aws_secret_access_key"),
                Err(error) => format!("{path}: {error}"),
            };
            format!(
                "no AWS keys: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set, and {reason}; for SSO or a role, \
                 run: eval \"$(aws configure export-credentials --format env)\""
            )
        })
    }
}

/// Whether a text can be a key, which is sent in a header.
fn is_key(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())
}

pub(in crate::sign_in) fn profile(text: &str, section: &str) -> Option<AwsKeys> {
    let is_header = |line: &str| line.starts_with('[');
    let named = |line: &str| line.trim_matches(['[', ']']).split_whitespace().eq(section.split_whitespace());
    let lines = text.lines().map(str::trim).skip_while(|line| !(is_header(line) && named(line)));
    let lines: Vec<&str> = lines.skip(1).take_while(|line| !is_header(line)).collect();
    let field = |name: &str| {
        let mut pairs = lines.iter().rev().filter_map(|line| line.split_once('='));
        let found = pairs.find(|(key, _)| key.trim().eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.trim()).filter(|value| is_key(value)).map(Secret::new)
    };
    Some(AwsKeys {
        id: field("aws_access_key_id")?,
        secret: field("aws_secret_access_key")?,
        session: field("aws_session_token"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_are_found_in_either_file() {
        let text = "# comment\n[default]\naws_access_key_id = A1\naws_secret_access_key=S1=\n\n[ci]\n\
                    aws_access_key_id=A2\naws_secret_access_key = S2\naws_session_token = T2\n[sso]\nsso_session = x\n";
        let read = |section| {
            profile(text, section).map(|keys| keys.secrets().map(|key| key.expose().to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(read("default").unwrap(), ["A1", "S1="]);
        assert_eq!(read("ci").unwrap(), ["A2", "S2", "T2"]);
        assert_eq!((read("sso"), read("none")), (None, None));
        assert!(profile("[profile  ci]\naws_access_key_id=A\naws_secret_access_key=B", "profile ci").is_some());
    }

    #[test]
    fn missing_keys_are_one_line_that_says_where_they_were_sought() {
        let nowhere = PathBuf::from("/nonexistent/credentials");
        let source =
            AwsKeySource::Profile { name: "default".into(), credentials: nowhere.clone(), config: nowhere.clone() };
        let message = source.read().unwrap_err();
        assert!(message.contains("/nonexistent/credentials") && message.lines().count() == 1, "{message}");
    }
}
