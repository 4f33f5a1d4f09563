//! Checks of flags for several servers and for repeated runs.

use std::collections::HashSet;

use tacho_client::{Balance, Headers, MAX_REPLICAS};
use tacho_core::secret::{is_secret_name, redact_url};

use super::headers::bad_header;
use crate::args::error::ArgumentError;
use crate::args::serve::{ServeArgs, replicas::split_urls};
use crate::args::shared::tags::WINDOW;

/// Checks the flags for several servers and for headers of routers.
pub(super) fn check_replicas(args: &ServeArgs) -> Result<(), ArgumentError> {
    let (urls, flags) = (args.base_urls(), &args.replicas);
    if args.tacho.strict_parity && args.target.base_url.as_deref().is_some_and(|text| split_urls(text).len() > 1) {
        return Err(ArgumentError::Together { flag: "--strict-parity", other: "several --base-url" });
    }
    let mut seen = HashSet::new();
    if let Some(twice) = urls.iter().find(|url| !seen.insert(*url)) {
        let url = redact_url(twice);
        return Err(ArgumentError::other(format!("--base-url names {url} twice: a replica is given once")));
    }
    if urls.len() > MAX_REPLICAS {
        let count = urls.len();
        return Err(ArgumentError::other(format!("--base-url names {count} servers: use at most {MAX_REPLICAS}")));
    }
    let from_file = args.values.get("--base-url").as_str().is_some_and(|text| text.starts_with('@'));
    let several = urls.len() > 1 || flags.resolve_all || from_file;
    if let Some(flag) = args.values.set_of(["--balance", "--on-replica-failure"]).next().filter(|_| !several) {
        return Err(ArgumentError::Alone { flag, other: "several --base-url, or --resolve-all" });
    }
    if args.values.is_set("--balance-prefix-len") && flags.balance != Balance::Prefix(0) {
        return Err(ArgumentError::Alone { flag: "--balance-prefix-len", other: "--balance prefix" });
    }
    let names = flags.response_header.iter().map(|name| ("--response-header", name));
    for (flag, name) in names.chain(flags.session_header.iter().map(|name| ("--session-header", name))) {
        let mut headers = Headers::default();
        headers.set(name, "");
        if headers.check().is_err() {
            return Err(bad_header(flag, name));
        }
        if flag == "--response-header" && is_secret_name(name) {
            return Err(ArgumentError::other(format!(
                "{flag} {name}: its values may be secrets, which tacho does not store: remove it"
            )));
        }
    }
    Ok(())
}

/// Checks the steady-state window, and repeated runs.
pub(super) fn check_repeats(args: &ServeArgs) -> Result<(), ArgumentError> {
    let ServeArgs { load, tacho, ranks, points, repeats, .. } = args;
    if let Some(flag) = args.values.first_tagged(WINDOW) {
        if load.max_concurrency.is_none() && points.flag != Some("--sweep-max-concurrency") {
            return Err(ArgumentError::Alone { flag, other: "--max-concurrency" });
        }
        // A schedule does not fill a concurrency limit.
        if load.request_rate.is_finite() || load.ramp_up_strategy.is_some() {
            return Err(ArgumentError::Together { flag, other: "--request-rate" });
        }
    }
    match (&tacho.resume, ranks.rank.or(ranks.ranks)) {
        _ if repeats.runs < 2 => Ok(()),
        (Some(_), _) => Err(ArgumentError::Together { flag: "--num-runs", other: "--resume" }),
        (_, Some(_)) => Err(ArgumentError::Together { flag: "--num-runs", other: "--rank or --ranks" }),
        _ => Ok(()),
    }
}
