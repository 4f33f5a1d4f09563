//! The servers of `--base-url` as replicas.

use tacho_client::{MAX_REPLICAS, ReplicaSpec, Url, addresses_of, proxy_for};

use super::plan::base_path;
use crate::{args::serve::ServeArgs, exit::Misused};

/// All servers of a run, at least one. `variable` reads the environment.
pub(super) fn list(
    args: &ServeArgs,
    base_urls: &[String],
    variable: &dyn Fn(&str) -> Option<String>,
) -> anyhow::Result<Vec<ReplicaSpec>> {
    let mut list = Vec::new();
    for base_url in base_urls {
        let url = Url::parse(&format!("{base_url}{}", args.endpoint()))?;
        let proxy = if args.tacho.sim { None } else { proxy_for(&url, variable)? };
        let base_path = base_path(base_url).to_owned();
        let one = ReplicaSpec { name: url.peer(), url, base_path, proxy, address: None };
        if args.replicas.resolve_all {
            list.extend(resolved(&one)?);
        } else {
            list.push(one);
        }
    }
    if list.len() > MAX_REPLICAS {
        return Err(Misused(format!(
            "--resolve-all finds {} addresses: at most {MAX_REPLICAS} are replicas",
            list.len()
        ))
        .into());
    }
    distinguish(&mut list);
    Ok(list)
}

/// One replica for each address of a name.
fn resolved(named: &ReplicaSpec) -> anyhow::Result<Vec<ReplicaSpec>> {
    if let Some(proxy) = &named.proxy {
        let text = format!(
            "--resolve-all cannot go through the proxy {}, which resolves names itself: set NO_PROXY",
            proxy.peer()
        );
        return Err(Misused(text).into());
    }
    if named.url.socket.is_some() {
        return Err(Misused("--resolve-all needs a host name, and a Unix socket has none".to_owned()).into());
    }
    let one = |address: std::net::SocketAddr| ReplicaSpec {
        name: address.to_string(),
        address: Some(address),
        ..named.clone()
    };
    Ok(addresses_of(&named.url)?.into_iter().map(one).collect())
}

/// Names replicas by their whole URLs if host and port do not tell them apart.
fn distinguish(list: &mut [ReplicaSpec]) {
    let names: Vec<String> = list.iter().map(|replica| replica.name.clone()).collect();
    for (at, replica) in list.iter_mut().enumerate() {
        if names.iter().enumerate().any(|(other, name)| other != at && *name == replica.name) {
            replica.name = format!("{}{}", replica.url.origin(), replica.base_path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_of_one_host_are_told_apart() {
        let replica = |base: &str| {
            let url = Url::parse(&format!("{base}/v1/completions")).unwrap();
            let base_path = base_path(base).to_owned();
            ReplicaSpec { name: url.peer(), url, base_path, proxy: None, address: None }
        };
        let mut list = ["http://a:1", "http://b:1/x", "http://b:1/y"].map(replica);
        distinguish(&mut list);
        assert_eq!(list.map(|replica| replica.name), ["a:1", "http://b:1/x", "http://b:1/y"]);
    }

    #[test]
    fn each_address_of_a_name_is_a_replica() {
        let url = Url::parse("http://localhost:81/v1/completions").unwrap();
        let named = ReplicaSpec { name: String::new(), url, base_path: String::new(), proxy: None, address: None };
        let found = resolved(&named).unwrap();
        assert!(found.iter().any(|replica| replica.name == "127.0.0.1:81"), "{found:?}");
        let proxy = Some(Url::parse("http://p:1").unwrap());
        assert!(resolved(&ReplicaSpec { proxy, ..named }).is_err());
    }
}
