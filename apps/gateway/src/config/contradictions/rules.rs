//! The rules, one function each.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use bezoar::QueueName;

use super::{ConfigKey, Contradiction, poison_queues, poison_retry};
use crate::{
    config::{
        Config, DeadLetterMode, QueueConfig, RouteConfig, Watch,
        human::{duration, size},
    },
    endpoint::EndpointUrl,
};

type Rule = fn(&Config) -> Vec<Contradiction>;

pub(super) const RULES: &[Rule] = &[
    same_names,
    same_queues,
    not_of_a_broker,
    not_of_this_broker,
    poison_queues::shared,
    open_to_all,
    same_secrets,
    unknown_queues,
    short_leases,
    short_drain,
    late_retries,
    impossible_retries,
    poison_retry::competing,
    poison_retry::impossible,
    poison_retry::dead_letters_elsewhere,
    loops,
    out_of_reach,
    overruled_networks,
    too_much_at_a_time,
    small_store,
];

/// The shortest lease that survives a short pause of the process.
const LEASE_LEAST: Duration = Duration::from_secs(3);
const WEEK: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// How many concurrent deliveries one process is designed for.
const CONCURRENCY_MOST: u64 = 10_000;

fn same_names(config: &Config) -> Vec<Contradiction> {
    let remedy = "use a unique name";
    let routes = twins(&config.routes, |route| &route.name).map(|(earlier, later)| {
        let problem =
            format!("is {}, the same as route[{earlier}].name", config.routes[later].name);
        Contradiction::error(ConfigKey::Route(later, "name"), problem, remedy)
    });
    let tokens = twins(&config.tokens, |token| &token.name).map(|(earlier, later)| {
        let problem =
            format!("is {}, the same as token[{earlier}].name", config.tokens[later].name);
        Contradiction::error(ConfigKey::Token(later, "name"), problem, remedy)
    });
    let queues = twins(&config.queues, |queue| &queue.name).map(|(_, later)| {
        let problem = format!("is {}, which is already defined", config.queues[later].name);
        Contradiction::error(ConfigKey::Queue(later, "name"), problem, "remove one of them")
    });
    routes.chain(tokens).chain(queues).collect()
}

fn same_queues(config: &Config) -> Vec<Contradiction> {
    let twins = twins(&config.routes, |route| &route.from);
    let error = |(earlier, later): (usize, usize)| {
        let (one, other) = (&config.routes[earlier], &config.routes[later]);
        let problem = format!(
            "is {}, which is the queue of both route {} and route {}",
            one.from, one.name, other.name
        );
        let remedy = "use a separate queue for each route, or remove one of them";
        Contradiction::error(ConfigKey::Route(later, "from"), problem, remedy)
    };
    twins.map(error).collect()
}

/// Broker settings on a queue of the embedded store.
fn not_of_a_broker(config: &Config) -> Vec<Contradiction> {
    let routes = config.routes.iter().enumerate();
    let modes = routes.filter(|(_, route)| route.dead_letter.is_some() && is_embedded(&route.from));
    let modes = modes.map(|(index, _)| ConfigKey::Route(index, "dead_letter"));
    let queues = config.queues.iter().enumerate();
    let settings =
        queues.filter(|(_, queue)| is_embedded(&queue.name)).flat_map(|(index, queue)| {
            broker_settings(queue).map(move |key| ConfigKey::Queue(index, key))
        });
    let error = |place| {
        let problem =
            "applies only to queues of brokers; the embedded store keeps its own dead letters";
        Contradiction::error(place, problem, "remove it")
    };
    modes.chain(settings).map(error).collect()
}

/// Names and settings that the broker of a queue does not accept.
fn not_of_this_broker(config: &Config) -> Vec<Contradiction> {
    let mut found = Vec::new();
    for queue in config.all_queues() {
        let Some((transport, there)) = config.broker(&queue) else { continue };
        let said = config.queues.iter().position(|said| said.name == queue);
        let route = config.routes.iter().position(|route| route.from == queue);
        let settings = transport.settings.of_kind();
        for (key, problem) in settings.check_queue(&there, said.map(|it| &config.queues[it])) {
            let place = match (said, route) {
                (Some(index), _) => ConfigKey::Queue(index, key),
                (None, Some(index)) => ConfigKey::Route(index, "from"),
                (None, None) => continue,
            };
            found.push(Contradiction::error(place, problem, "correct it"));
        }
        let mode = route.and_then(|index| config.routes[index].dead_letter);
        if let (Some(index), Some(DeadLetterMode::Reject), false) =
            (route, mode, settings.rejects())
        {
            let problem = "is \"reject\", which the broker of this queue cannot do";
            let place = ConfigKey::Route(index, "dead_letter");
            found.push(Contradiction::error(place, problem, "remove it"));
        }
    }
    found
}

/// The settings of a queue that only a broker's queue can have.
fn broker_settings(queue: &QueueConfig) -> impl Iterator<Item = &'static str> {
    let settings = [
        ("watch", queue.watch != Watch::Take),
        ("dead_letter_exchange", queue.dead_letter_exchange.is_some()),
        ("dead_letter_key", queue.dead_letter_key.is_some()),
        ("dead_letter_queue", queue.dead_letter_queue.is_some()),
    ];
    settings.into_iter().filter_map(|(key, is_set)| is_set.then_some(key))
}

pub(super) fn is_embedded(queue: &QueueName) -> bool {
    !queue.as_str().contains('/')
}

fn open_to_all(config: &Config) -> Vec<Contradiction> {
    if config.server.is_on_loopback() || !config.tokens.is_empty() {
        return Vec::new();
    }
    let problem = format!(
        "is {}, which is reachable from other machines, but no token is configured",
        config.server.listen
    );
    let remedy = "add a [[token]], or listen on 127.0.0.1";
    let listen = ConfigKey::Key("server.listen");
    vec![Contradiction::error(listen, problem, remedy).moot_with("token")]
}

fn same_secrets(config: &Config) -> Vec<Contradiction> {
    let twins = twins(&config.tokens, |token| token.secret.reveal());
    let error = |(earlier, later): (usize, usize)| {
        let problem = format!("is the same as the secret of token {}", config.tokens[earlier].name);
        Contradiction::error(
            ConfigKey::Token(later, "secret"),
            problem,
            "use a separate secret for each token",
        )
    };
    twins.map(error).collect()
}

fn unknown_queues(config: &Config) -> Vec<Contradiction> {
    let known = config.all_queues();
    let mut found = Vec::new();
    for (index, token) in config.tokens.iter().enumerate() {
        let queues = token.queues.iter().flatten().filter(|queue| !known.contains(*queue));
        found.extend(queues.map(|queue| {
            let problem = format!("contains {queue}, but there is no such queue");
            let remedy = "correct it, or add a [[queue]] with that name";
            Contradiction::warning(ConfigKey::Token(index, "queues"), problem, remedy)
                .moot_with("route")
        }));
    }
    found
}

fn short_leases(config: &Config) -> Vec<Contradiction> {
    let short = |route: &RouteConfig| route.lease < LEASE_LEAST;
    each(config, short, |index, route| {
        let problem = format!(
            "is {}, which may expire during a short pause of the process",
            duration::format(route.lease)
        );
        let remedy = "set \"3s\" or more to avoid duplicate deliveries";
        Contradiction::warning(ConfigKey::Route(index, "lease"), problem, remedy)
    })
}

fn short_drain(config: &Config) -> Vec<Contradiction> {
    let drain = config.server.drain;
    let slow = |route: &RouteConfig| route.timeout > drain;
    each(config, slow, |index, route| {
        let (timeout, drain) = (duration::format(route.timeout), duration::format(drain));
        let problem = format!("is {timeout}, longer than server.drain ({drain})");
        let remedy = "raise server.drain, otherwise a shutdown may abort and repeat deliveries";
        Contradiction::warning(ConfigKey::Route(index, "timeout"), problem, remedy)
    })
}

fn late_retries(config: &Config) -> Vec<Contradiction> {
    let late = |route: &RouteConfig| route.retry.largest_delay() > WEEK;
    each(config, late, |index, route| {
        let delay = in_seconds(route.retry.largest_delay());
        let problem = format!("may wait {delay} before a retry");
        let remedy = "lower max, max_retries or multiplier if this is not intended";
        Contradiction::warning(ConfigKey::Route(index, "retry"), problem, remedy)
    })
}

/// A computed delay, without its fractions of a second.
fn in_seconds(delay: Duration) -> String {
    duration::format(Duration::from_secs(delay.as_secs()))
}

/// A broker that cannot wait that long would deliver the message early.
fn impossible_retries(config: &Config) -> Vec<Contradiction> {
    let longest = |route: &RouteConfig| {
        config.broker(&route.from).map(|(it, _)| it.settings.of_kind().longest_delay())
    };
    let impossible = |route: &RouteConfig| {
        longest(route).is_some_and(|longest| route.retry.largest_delay() > longest)
    };
    each(config, impossible, |index, route| {
        let delay = in_seconds(route.retry.largest_delay());
        let longest = in_seconds(longest(route).unwrap_or_default());
        let problem =
            format!("may wait {delay} before a retry, longer than its broker can wait ({longest})");
        let remedy = "lower max, max_retries or multiplier; on RabbitMQ, max_delay can be raised";
        Contradiction::error(ConfigKey::Route(index, "retry"), problem, remedy)
    })
}

fn loops(config: &Config) -> Vec<Contradiction> {
    let listen = config.server.listen;
    let ourselves = |route: &RouteConfig| listen.port() != 0 && leads_to(&route.to, listen);
    each(config, ourselves, |index, _| {
        let problem = "is the address of the gateway itself";
        let remedy = "this looks like a loop; set the URL of your endpoint";
        Contradiction::warning(ConfigKey::Route(index, "to"), problem, remedy)
    })
}

/// Whether a request to `url` would arrive at `listen`, as far as known without DNS.
fn leads_to(url: &EndpointUrl, listen: SocketAddr) -> bool {
    let own = listen.ip().to_canonical();
    let arrives =
        |address: &IpAddr| *address == own || own.is_unspecified() && address.is_loopback();
    port(url) == listen.port() && addresses(url).iter().any(arrives)
}

fn out_of_reach(config: &Config) -> Vec<Contradiction> {
    let rule = config.network.rule(&config.server);
    let refused = |route: &RouteConfig| {
        let addresses = addresses(&route.to);
        !addresses.is_empty() && addresses.iter().all(|address| !rule.permits(*address))
    };
    each(config, refused, |index, route| {
        let problem = format!("is {}, which [network] does not allow", route.to.origin());
        let remedy = "add it to network.allow, or set network.private = true; private addresses \
                      are allowed by default only while the gateway listens on loopback";
        Contradiction::error(ConfigKey::Route(index, "to"), problem, remedy).moot_with("network")
    })
}

fn overruled_networks(config: &Config) -> Vec<Contradiction> {
    let warning = |(allowed, denied)| {
        let problem = format!("contains {allowed}, which network.deny denies with {denied}");
        Contradiction::warning(
            ConfigKey::Key("network.allow"),
            problem,
            "remove it from one of the lists",
        )
    };
    config.network.overruled().map(warning).collect()
}

fn too_much_at_a_time(config: &Config) -> Vec<Contradiction> {
    let total: u64 = config.routes.iter().map(|route| u64::from(route.concurrency)).sum();
    if total <= CONCURRENCY_MOST {
        return Vec::new();
    }
    let problem = format!("brings the total of all routes to {total} concurrent deliveries");
    let remedy = format!("lower the total to {CONCURRENCY_MOST} or less");
    let largest = (0..config.routes.len()).max_by_key(|index| config.routes[*index].concurrency);
    let place = ConfigKey::Route(largest.unwrap_or(0), "concurrency");
    vec![Contradiction::warning(place, problem, remedy)]
}

fn small_store(config: &Config) -> Vec<Contradiction> {
    let body = config.server.max_body_bytes;
    let most = config.store.sqlite().and_then(|sqlite| sqlite.max_size_bytes);
    let Some(most) = most.filter(|most| *most < body.saturating_mul(2)) else {
        return Vec::new();
    };
    let (most, body) = (size::format(most), size::format(body));
    let problem = format!("is {most}, barely enough for one body of server.max_body ({body})");
    let remedy = "raise it, or lower server.max_body";
    vec![Contradiction::warning(ConfigKey::Key("store.max_size"), problem, remedy)]
}

/// Pairs of elements with the same key: each later one with the first.
pub(super) fn twins<'c, T, K: PartialEq + ?Sized + 'c>(
    list: &'c [T],
    key: impl Fn(&'c T) -> &'c K,
) -> impl Iterator<Item = (usize, usize)> {
    (0..list.len()).filter_map(move |later| {
        let earlier = list[..later].iter().position(|other| key(other) == key(&list[later]))?;
        Some((earlier, later))
    })
}

fn each(
    config: &Config,
    odd: impl Fn(&RouteConfig) -> bool,
    say: impl Fn(usize, &RouteConfig) -> Contradiction,
) -> Vec<Contradiction> {
    let routes = config.routes.iter().enumerate();
    routes.filter(|(_, route)| odd(route)).map(|(index, route)| say(index, route)).collect()
}

/// The addresses of a URL whose host is an address or `localhost`.
fn addresses(url: &EndpointUrl) -> Vec<IpAddr> {
    let (host, _) = host_and_port(url);
    if host.eq_ignore_ascii_case("localhost") {
        return vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    }
    let bare = host.trim_matches(['[', ']']);
    bare.parse::<IpAddr>().map(|address| address.to_canonical()).into_iter().collect()
}

fn port(url: &EndpointUrl) -> u16 {
    let standard = if url.origin().starts_with("https:") { 443 } else { 80 };
    host_and_port(url).1.unwrap_or(standard)
}

fn host_and_port(url: &EndpointUrl) -> (&str, Option<u16>) {
    let authority = url.origin().split_once("://").map_or("", |(_, authority)| authority);
    match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()),
        _ => (authority, None),
    }
}
