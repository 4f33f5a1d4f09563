//! Flags of `tacho serve` for several servers, and the headers that routers use.

use tacho_args::declare::*;
use tacho_client::{Balance, OnReplicaFailure, REMOVED_AFTER};

use crate::args::error::ArgumentError;
use crate::args::shared::tags::{NEEDS_SERVER, SAVED};

pub(super) static REPLICAS: Group =
    group("replica options", "tacho options", "Several servers in one run, and headers of routers.")
        .tagged(NEEDS_SERVER);

/// Schemes that begin an address in a list.
const SCHEMES: [&str; 4] = ["http://", "https://", "http+unix://", "@"];

flags! {
    ReplicaArgs {
        FLAGS [
            balance: Balance = tacho(&["--balance"], Choice(&["round-robin", "least-in-flight", "session", "prefix", "random"]), "POLICY",
                DefaultValue::Str("round-robin"), &REPLICAS,
                "Distribution of requests over several --base-url. least-in-flight: to the replica with the fewest requests in flight; \
                 session: all requests of a session to one replica; prefix: prompts with the same beginning to one replica; random: \
                 by --seed.") => balance;
            balance_prefix_len: i64 = tacho(&["--balance-prefix-len"], Int, "BYTES", DefaultValue::Int(256), &REPLICAS,
                "Bytes of the prompt that --balance prefix compares. A token id counts as 4.").between(1.0, 1e9);
            resolve_all: bool = switch(&["--resolve-all"], &REPLICAS,
                "Treat every address (A, AAAA) of the host of --base-url as a replica.");
            on_replica_failure: OnReplicaFailure = tacho(&["--on-replica-failure"], Choice(&OnReplicaFailure::NAMES), "POLICY",
                DefaultValue::Str("fail"), &REPLICAS,
                "Effect of a replica that fails. fail: its requests fail; retry-elsewhere: a request that fails before its first token is \
                 sent to another replica, counted as a retry; remove: after 3 failed connections in a row it gets no more requests.")
                => named;
            response_header: Vec<String> = tacho(&["--response-header"], Repeated, "NAME", Unset, &REPLICAS,
                "Response header to keep with each request, such as the replica that a router chose. Its values are groups of the report \
                 if there are at most 100. Can be repeated.");
            session_header: Option<String> = tacho(&["--session-header"], Str, "NAME", Unset, &REPLICAS,
                "Request header with the session id, for routers (default: X-Session-ID).").tagged(SAVED);
        ]
    }
}

fn balance(setting: Setting<'_>) -> Balance {
    match setting.value.as_str() {
        Some("least-in-flight") => Balance::LeastInFlight,
        Some("session") => Balance::Session,
        // The length is another flag.
        Some("prefix") => Balance::Prefix(0),
        Some("random") => Balance::Random,
        _ => Balance::RoundRobin,
    }
}

/// Splits a list of addresses: a comma separates them if a scheme follows it.
pub(super) fn split_urls(text: &str) -> Vec<&str> {
    let starts = |at: &usize| SCHEMES.iter().any(|scheme| text[at + 1..].starts_with(scheme));
    let mut urls = Vec::new();
    let mut begin = 0;
    for (comma, _) in text.match_indices(',').filter(|(at, _)| starts(at)) {
        urls.push(&text[begin..comma]);
        begin = comma + 1;
    }
    urls.push(&text[begin..]);
    urls
}

/// Replaces each `@FILE` in a list of addresses by the addresses in the file, one per line.
pub(super) fn expanded(text: &str) -> Result<String, ArgumentError> {
    let mut urls = Vec::new();
    for item in split_urls(text) {
        let Some(path) = item.strip_prefix('@') else {
            urls.push(item.to_owned());
            continue;
        };
        let invalid = |problem: String| ArgumentError::other(format!("--base-url @{path}: {problem}"));
        let lines = tacho_core::files::read_settings_text(path).map_err(|error| invalid(error.to_string()))?;
        let lines = lines.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let before = urls.len();
        urls.extend(lines.map(str::to_owned));
        if urls.len() == before {
            return Err(invalid("it has no line with an address".to_owned()));
        }
    }
    Ok(urls.join(","))
}

// The help states the number.
const _: () = assert!(REMOVED_AFTER == 3);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_distinguished_by_their_schemes() {
        assert_eq!(split_urls("http://a:1"), ["http://a:1"]);
        assert_eq!(split_urls("http://a:1/x,y,https://b,@c"), ["http://a:1/x,y", "https://b", "@c"]);
    }

    #[test]
    fn a_file_has_one_address_per_line() {
        let path = std::env::temp_dir().join(format!("tacho-urls-{}", std::process::id()));
        std::fs::write(&path, "# replicas\nhttp://b:1\n\n  http://c:2  \n").unwrap();
        let given = format!("http://a,@{}", path.display());
        assert_eq!(expanded(&given).unwrap(), "http://a,http://b:1,http://c:2");
        std::fs::write(&path, "# none\n").unwrap();
        assert!(expanded(&given).unwrap_err().to_string().contains("has no line"));
        std::fs::remove_file(&path).unwrap();
        assert!(expanded(&given).is_err());
    }
}
