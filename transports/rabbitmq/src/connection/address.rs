//! AMQP URLs with one or more hosts (pure).

use bezoar_core::Invalid;
use lapin::uri::{AMQPScheme, AMQPUri};
use rand::{SeedableRng, rngs::StdRng, seq::SliceRandom};

/// One address for each host of `amqp://USER:PASSWORD@HOST:PORT,HOST:PORT/VHOST`; the other parts apply to all. The
/// error does not repeat the URL: it contains a password.
pub(crate) fn parse(url: &str) -> Result<Vec<AMQPUri>, Invalid> {
    let (scheme, rest) = url.split_once("://").ok_or_else(refused)?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let (user, hosts) = match authority.rsplit_once('@') {
        Some((user, hosts)) => (format!("{user}@"), hosts),
        None => (String::new(), authority),
    };
    hosts.split(',').map(|host| one(&format!("{scheme}://{user}{host}{path}"), host)).collect()
}

/// The addresses in an order that depends on `seed`: gateways with the same URL spread over the hosts of a cluster.
pub(crate) fn shuffled(mut addresses: Vec<AMQPUri>, seed: u64) -> Vec<AMQPUri> {
    addresses.shuffle(&mut StdRng::seed_from_u64(seed));
    addresses
}

fn one(url: &str, host: &str) -> Result<AMQPUri, Invalid> {
    let mut uri: AMQPUri = url.parse().map_err(|_| refused())?;
    // lapin falls back to localhost for a host that it cannot parse as a domain.
    if let Some((address, _)) = host.strip_prefix('[').and_then(|host| host.split_once(']')) {
        uri.authority.host = address.to_owned();
    } else if host.is_empty() || host.starts_with(':') {
        return Err(Invalid::new("url", "has no host"));
    }
    if uri.vhost.is_empty() {
        uri.vhost = "/".to_owned();
    }
    Ok(uri)
}

pub(crate) fn is_encrypted(uri: &AMQPUri) -> bool {
    uri.scheme == AMQPScheme::AMQPS
}

fn refused() -> Invalid {
    let expected = "is not amqp://USER:PASSWORD@HOST:PORT/VHOST or amqps://…; separate several hosts by \
                    commas, and percent-encode special characters in user, password and vhost";
    Invalid::new("url", expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(url: &str) -> Vec<(String, u16)> {
        let addresses = parse(url).unwrap().into_iter().map(|uri| uri.authority);
        addresses.map(|it| (it.host, it.port)).collect()
    }

    #[test]
    fn one_host_or_several() {
        assert_eq!(hosts("amqp://a"), [("a".to_owned(), 5672)]);
        let several = hosts("amqps://me:pass@a,b:1,[::1]:2/v?heartbeat=7");
        assert_eq!(several, [("a".to_owned(), 5671), ("b".to_owned(), 1), ("::1".to_owned(), 2)]);
    }

    #[test]
    fn processes_prefer_different_hosts_and_each_tries_all() {
        let first = |seed| {
            let order = shuffled(parse("amqp://a,b,c").unwrap(), seed);
            let mut hosts: Vec<_> = order.into_iter().map(|uri| uri.authority.host).collect();
            let first = hosts[0].clone();
            hosts.sort();
            assert_eq!(hosts, ["a", "b", "c"]);
            first
        };
        let preferred: std::collections::BTreeSet<_> = (0..50).map(first).collect();
        assert_eq!(preferred.len(), 3, "{preferred:?}");
        assert_eq!(first(7), first(7), "all connections of a process go the same way");
    }

    #[test]
    fn user_vhost_and_query_apply_to_all_hosts() {
        for uri in parse("amqp://m%40e:p%2Fw@a,b/v%2Fw?heartbeat=7").unwrap() {
            assert_eq!(uri.authority.userinfo.username, "m@e");
            assert_eq!(uri.authority.userinfo.password, "p/w");
            assert_eq!((uri.vhost.as_str(), uri.query.heartbeat), ("v/w", Some(7)));
        }
        assert_eq!(parse("amqp://a/").unwrap()[0].vhost, "/");
    }

    #[test]
    fn an_invalid_url_is_refused_and_not_repeated() {
        for bad in [
            "http://me:CANARY@a",
            "amqp://me:CANARY@",
            "amqp://me:CANARY@a,,b",
            "CANARY",
            "amqp://a:CANARY",
        ] {
            let refused = parse(bad).unwrap_err().to_string();
            assert!(!refused.contains("CANARY"), "{refused}");
        }
    }
}
