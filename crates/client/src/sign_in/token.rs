//! Reads a token and its lifetime from the output of a command or of a token endpoint.

use std::time::Duration;

use jiff::{Timestamp, civil::DateTime, tz::TimeZone};
use tacho_core::Secret;
use tacho_core::json::{Value, parse};

use crate::base64;

/// A token and how long it is valid from now on, if known.
#[derive(Debug, PartialEq)]
pub(super) struct Token {
    pub(super) secret: Secret,
    pub(super) lifetime: Option<Duration>,
}

/// Reads a token: JSON with `access_token` (or `accessToken`, `token`), a Kubernetes ExecCredential, or the first line.
/// `now` is in seconds since 1970.
pub(super) fn read(text: &str, now: f64) -> Result<Token, &'static str> {
    let text = text.trim();
    let (token, lifetime) = match parse(text) {
        Ok(json @ Value::Dict(_)) if text.starts_with('{') => {
            let fields = json.get("status").filter(|status| status.get("token").is_some()).unwrap_or(&json);
            let token = ["access_token", "accessToken", "token"].iter().find_map(|name| fields.text(name));
            (token.ok_or("its JSON has no access_token and no status.token")?.to_owned(), lifetime(fields, now))
        }
        _ => (text.lines().next().unwrap_or_default().trim().to_owned(), None),
    };
    if token.is_empty() {
        return Err("it is empty");
    }
    if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("its first line is not a token: it has characters that no token has");
    }
    let lifetime = lifetime.or_else(|| jwt_expiry(&token).map(|expiry| expiry - now));
    let lifetime = lifetime.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    Ok(Token { secret: Secret::new(token), lifetime })
}

/// Seconds for which the token in these fields is valid.
fn lifetime(fields: &Value, now: f64) -> Option<f64> {
    let time = |name: &&str| match fields.get(name)? {
        Value::Str(text) => text.parse().ok().or_else(|| unix_seconds(text)),
        number => number.as_f64(),
    };
    let expiry = ["expires_at", "expires_on", "expirationTimestamp"].iter().find_map(time);
    time(&"expires_in").or_else(|| expiry.map(|expiry| expiry - now))
}

/// A date and time in seconds since 1970; in UTC if it has no zone.
fn unix_seconds(text: &str) -> Option<f64> {
    let utc = || text.parse::<DateTime>().and_then(|time| time.to_zoned(TimeZone::UTC)).map(|time| time.timestamp());
    let time = text.parse::<Timestamp>().or_else(|_| utc()).ok()?;
    Some(time.as_duration().as_secs_f64())
}

/// The `exp` of a JSON Web Token, unverified: only the server has to trust it.
fn jwt_expiry(token: &str) -> Option<f64> {
    let mut parts = token.split('.');
    let (payload, _signature) = (parts.nth(1)?, parts.next()?);
    let mut claims = Vec::new();
    base64::decode(payload.as_bytes(), &mut claims)?;
    let claims = parse(&String::from_utf8(claims).ok()?).ok()?;
    claims.get("exp")?.as_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(text: &str) -> (String, Option<f64>) {
        let token = read(text, 1_440_938_160.0).unwrap();
        (token.secret.expose().to_owned(), token.lifetime.map(|lifetime| lifetime.as_secs_f64()))
    }

    #[test]
    fn tokens_of_every_form_are_read() {
        let kubernetes = r#"{"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1",
            "status": {"token": "t", "expirationTimestamp": "2015-08-30T12:36:30Z"}}"#;
        // {"alg":"none"} . {"sub":"a","exp":1440938170}
        let jwt = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIiwiZXhwIjoxNDQwOTM4MTcwfQ.c2ln";
        for (text, token, lifetime) in [
            ("t\n", "t", None),
            ("t\nsomething else\n", "t", None),
            (r#"{"access_token": "t", "expires_in": 3599}"#, "t", Some(3599.0)),
            (r#"{"access_token": "t", "expires_in": "3599"}"#, "t", Some(3599.0)),
            (r#"{"access_token": "t", "expires_at": 1440938165.5}"#, "t", Some(5.5)),
            (r#"{"accessToken": "t", "expires_on": 1440938165}"#, "t", Some(5.0)),
            (r#"{"access_token": "t", "expires_at": "2015-08-30T12:36:07Z"}"#, "t", Some(7.0)),
            (r#"{"access_token": "t", "expires_at": "2015-08-30T07:06:07.25-05:30"}"#, "t", Some(7.25)),
            (r#"{"access_token": "t", "expires_at": "2015-08-30 12:36:08"}"#, "t", Some(8.0)),
            (r#"{"access_token": "t", "expires_at": "tomorrow"}"#, "t", None),
            (r#"{"token": "t"}"#, "t", None),
            (kubernetes, "t", Some(30.0)),
            (jwt, jwt, Some(10.0)),
            // A token that has expired by this machine's clock has no known lifetime.
            (r#"{"access_token": "t", "expires_at": 1}"#, "t", None),
            ("{not-json}", "{not-json}", None),
        ] {
            assert_eq!(read_all(text), (token.to_owned(), lifetime), "{text}");
        }
    }

    #[test]
    fn what_is_not_a_token_is_refused_without_showing_it() {
        for text in ["", "\n", "log in first", "{\"error\": \"denied\"}", "{\"access_token\": \"\"}", "a\u{1b}[2J"] {
            let reason = read(text, 0.0).unwrap_err();
            assert!(text.trim().is_empty() || !reason.contains(text.trim()), "{reason}");
        }
    }
}
