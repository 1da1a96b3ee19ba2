//! A topology in the forms that an administrator can apply: commands, a definitions file, or policies (pure).

use std::fmt::Write as _;

use lapin::types::{AMQPValue, FieldTable};
use serde_json::{Map, Value, json};

use super::{Binding, Exchange, Queue, Topology};

/// The only argument that a policy cannot set.
const QUEUE_TYPE: &str = "x-queue-type";

impl Topology {
    /// Everything of both, without repetitions.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        let Self { exchanges, queues, bindings } = other;
        let is_new = |it: &Exchange| self.exchanges.iter().all(|known| known.name != it.name);
        let exchanges: Vec<_> = exchanges.into_iter().filter(is_new).collect();
        let is_new = |it: &Queue| self.queues.iter().all(|known| known.name != it.name);
        let queues: Vec<_> = queues.into_iter().filter(is_new).collect();
        let is_new = |it: &Binding| !self.bindings.contains(it);
        let bindings: Vec<_> = bindings.into_iter().filter(is_new).collect();
        self.exchanges.extend(exchanges);
        self.queues.extend(queues);
        self.bindings.extend(bindings);
        self
    }

    /// Commands for `rabbitmqadmin`, the program of the management plugin, one per line.
    pub fn commands(&self, vhost: &str) -> String {
        let mut lines = String::new();
        let program = format!("rabbitmqadmin --vhost={}", quoted(vhost));
        for Exchange { name, kind, arguments } in &self.exchanges {
            let (name, kind) = (quoted(name), kind_name(kind));
            let _ =
                write!(lines, "{program} declare exchange name={name} type={kind} durable=true");
            let _ = writeln!(lines, "{}", arguments_option(arguments));
        }
        for Queue { name, arguments } in &self.queues {
            let name = quoted(name);
            let _ = write!(lines, "{program} declare queue name={name} durable=true");
            let _ = writeln!(lines, "{}", arguments_option(arguments));
        }
        for Binding { from, to, key } in &self.bindings {
            let (from, to, key) = (quoted(from), quoted(to), quoted(key));
            let _ = writeln!(
                lines,
                "{program} declare binding source={from} destination={to} routing_key={key}"
            );
        }
        lines
    }

    /// A definitions file, for `rabbitmqctl import_definitions` or the management API.
    pub fn definitions(&self, vhost: &str) -> Value {
        let exchanges = self.exchanges.iter().map(|it| exchange(it, vhost, &it.arguments));
        let queues = self.queues.iter().map(|it| queue(it, vhost, &it.arguments));
        json!({
            "exchanges": exchanges.collect::<Vec<_>>(),
            "queues": queues.collect::<Vec<_>>(),
            "bindings": self.bindings_json(vhost),
        })
    }

    /// A definitions file in which policies set everything that a policy can set: they can be changed later, arguments
    /// cannot. The broker applies only one policy to a queue, so each has the exact name as its pattern.
    pub fn policies(&self, vhost: &str) -> Value {
        let none = FieldTable::default();
        let exchanges = self.exchanges.iter().map(|it| exchange(it, vhost, &none));
        let queues = self.queues.iter().map(|it| queue(it, vhost, &only_type(&it.arguments)));
        let of_exchanges =
            self.exchanges.iter().map(|it| policy(&it.name, "exchanges", vhost, &it.arguments));
        let of_queues =
            self.queues.iter().map(|it| policy(&it.name, "queues", vhost, &it.arguments));
        json!({
            "policies": of_exchanges.chain(of_queues).flatten().collect::<Vec<_>>(),
            "exchanges": exchanges.collect::<Vec<_>>(),
            "queues": queues.collect::<Vec<_>>(),
            "bindings": self.bindings_json(vhost),
        })
    }

    fn bindings_json(&self, vhost: &str) -> Vec<Value> {
        let binding = |Binding { from, to, key }: &Binding| {
            json!({
                "source": from, "vhost": vhost, "destination": to, "destination_type": "queue",
                "routing_key": key, "arguments": {},
            })
        };
        self.bindings.iter().map(binding).collect()
    }
}

fn exchange(exchange: &Exchange, vhost: &str, arguments: &FieldTable) -> Value {
    json!({
        "name": exchange.name, "vhost": vhost, "type": kind_name(&exchange.kind), "durable": true,
        "auto_delete": false, "internal": false, "arguments": table(arguments),
    })
}

fn queue(queue: &Queue, vhost: &str, arguments: &FieldTable) -> Value {
    json!({
        "name": queue.name, "vhost": vhost, "durable": true, "auto_delete": false,
        "arguments": table(arguments),
    })
}

/// The policy with what the arguments say; `None` if they say nothing that a policy can set.
fn policy(name: &str, applies_to: &str, vhost: &str, arguments: &FieldTable) -> Option<Value> {
    let definition: Map<String, Value> = table(arguments)
        .into_iter()
        .filter(|(name, _)| name != QUEUE_TYPE)
        .map(|(name, value)| (name.trim_start_matches("x-").to_owned(), value))
        .collect();
    (!definition.is_empty()).then(|| {
        json!({
            "name": format!("bezoar {name}"), "vhost": vhost, "pattern": exactly(name),
            "apply-to": applies_to, "priority": 10, "definition": definition,
        })
    })
}

fn only_type(arguments: &FieldTable) -> FieldTable {
    let mut only = FieldTable::default();
    if let Some(queue_type) = arguments.inner().get(QUEUE_TYPE) {
        only.insert(QUEUE_TYPE.into(), queue_type.clone());
    }
    only
}

fn table(arguments: &FieldTable) -> Map<String, Value> {
    arguments.inner().iter().map(|(name, value)| (name.to_string(), plain(value))).collect()
}

/// An argument as JSON. Ours are texts and whole numbers.
pub(crate) fn plain(value: &AMQPValue) -> Value {
    match value {
        AMQPValue::LongString(text) => text.to_string().into(),
        AMQPValue::LongLongInt(number) => (*number).into(),
        _ => Value::Null,
    }
}

fn kind_name(kind: &lapin::ExchangeKind) -> &'static str {
    match kind {
        lapin::ExchangeKind::Fanout => "fanout",
        _ => "direct",
    }
}

fn arguments_option(arguments: &FieldTable) -> String {
    match arguments.inner().is_empty() {
        true => String::new(),
        false => format!(" arguments={}", quoted(&Value::Object(table(arguments)).to_string())),
    }
}

/// A pattern that matches exactly this name.
fn exactly(name: &str) -> String {
    let escaped: String = name
        .chars()
        .flat_map(|c| {
            (!c.is_alphanumeric() && c != '-' && c != '_').then_some('\\').into_iter().chain([c])
        })
        .collect();
    format!("^{escaped}$")
}

/// A word for a POSIX shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use bezoar_core::QueueName;

    use super::*;
    use crate::Options;

    fn topology() -> Topology {
        let options = Options::from_url("amqp://localhost").unwrap();
        Topology::for_queue(&QueueName::new("it's").unwrap(), &options).unwrap()
    }

    #[test]
    fn commands_are_quoted_for_a_shell() {
        let commands = topology().commands("/");
        let line = commands.lines().find(|it| it.contains("queue name='it'\\''s.dead'")).unwrap();
        assert!(line.starts_with("rabbitmqadmin --vhost=/ declare queue"), "{line}");
        assert!(line.contains(r#"arguments='{"x-delivery-limit":1000000,"#), "{line}");
    }

    #[test]
    fn policies_leave_only_the_type_as_an_argument() {
        let policies = topology().policies("lab");
        for queue in policies["queues"].as_array().unwrap() {
            assert_eq!(queue["arguments"], json!({ "x-queue-type": "quorum" }));
        }
        let work = policies["policies"].as_array().unwrap();
        let work = work.iter().find(|it| it["name"] == "bezoar it's").unwrap();
        assert_eq!(work["pattern"], r"^it\'s$");
        assert_eq!(work["definition"]["dead-letter-exchange"], "bezoar.dead");
        assert_eq!(work["definition"]["overflow"], "reject-publish");
    }

    #[test]
    fn what_two_queues_share_is_planned_once() {
        let both = topology().and(topology());
        assert_eq!(both, topology());
    }
}
