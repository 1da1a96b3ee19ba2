//! Which dead letters: the same filter flags for every command that selects some.

use bezoar::{
    Code, CorrelationId, FailureKind, Invalid, MessageId, MessageType, QueueName,
    catalogue::CauseId,
};
use bezoar_gateway::api_types::DeadLetterFilter;
use jiff::Timestamp;

use super::abbreviation::Abbreviated;
use crate::{
    client::{ApiClient, encode},
    complete, duration, shell,
};

/// A dead letter must match everything that is given.
#[derive(Debug, Default, clap::Args)]
#[group(skip)] // its name would clash with the group that it is flattened into
pub(super) struct Filter {
    /// Only dead letters of this queue
    #[arg(long, help_heading = HEADING, add = complete::queues())]
    queue: Option<QueueName>,
    /// Only dead letters of this route's queue
    #[arg(long, help_heading = HEADING, add = complete::routes())]
    route: Option<String>,
    /// Only messages of this type
    #[arg(long = "type", value_name = "T", help_heading = HEADING)]
    message_type: Option<MessageType>,
    /// Only if the last failure was of this kind: unknown, transient, permanent, not-found,
    /// unauthorized, external-service, database or ai-service
    #[arg(long, value_parser = kind, help_heading = HEADING)]
    kind: Option<FailureKind>,
    /// Only if the last failure had this code, such as http.503
    #[arg(long, value_parser = code, help_heading = HEADING)]
    code: Option<Code>,
    /// Only dead letters of this cause, as shown by `bezoar dead causes`
    #[arg(long, value_parser = cause, help_heading = HEADING, add = complete::causes())]
    cause: Option<Abbreviated<CauseId>>,
    /// Only messages with this correlation id
    #[arg(long, value_name = "C", help_heading = HEADING)]
    correlation_id: Option<CorrelationId>,
    /// Only the message with this id
    #[arg(long, value_name = "ID", help_heading = HEADING)]
    message_id: Option<MessageId>,
    /// Only if dead-lettered at or after this time, such as 2026-11-14T09:30:00Z, or an age such as 2h
    #[arg(long, value_name = "TIME", value_parser = moment, help_heading = HEADING)]
    since: Option<String>,
    /// Only if dead-lettered before this time, or longer ago than this age
    #[arg(long, value_name = "TIME", value_parser = moment, help_heading = HEADING)]
    until: Option<String>,
    /// Only messages with at least N failed attempts
    #[arg(long, value_name = "N", help_heading = HEADING)]
    min_attempts: Option<u32>,
    /// Only messages that were replayed before
    #[arg(long, help_heading = HEADING)]
    replayed: bool,
    /// Only messages that were never replayed
    #[arg(long, conflicts_with = "replayed", help_heading = HEADING)]
    never_replayed: bool,
    /// Only dead letters in this state; an edited one is the original of an edited version
    #[arg(long, value_parser = STATES, help_heading = HEADING)]
    state: Option<String>,
}

const HEADING: &str = "Filters";
const STATES: [&str; 4] = ["open", "held", "edited", "unapproved"];

impl Filter {
    /// The same with the whole id of an abbreviated cause.
    pub(super) async fn resolve(mut self, client: &ApiClient) -> anyhow::Result<Self> {
        if let Some(cause) = self.cause.take() {
            self.cause = Some(Abbreviated::Whole(cause.resolve(client).await?));
        }
        Ok(self)
    }

    /// Whether it matches everything.
    pub(super) fn is_empty(&self) -> bool {
        self.request().pairs().is_empty()
    }

    /// The queue, if it is the only criterion.
    pub(super) fn only_queue(&self) -> Option<&QueueName> {
        self.queue.as_ref().filter(|_| self.request().pairs().len() == 1)
    }

    /// As part of a query string: `&queue=lab`.
    pub(super) fn query(&self) -> String {
        self.request()
            .pairs()
            .iter()
            .map(|(name, text)| format!("&{name}={}", encode(text)))
            .collect()
    }

    /// In the body of a request.
    pub(super) fn request(&self) -> DeadLetterFilter {
        fn text(value: &Option<impl ToString>) -> Option<String> {
            value.as_ref().map(ToString::to_string)
        }
        DeadLetterFilter {
            queue: text(&self.queue),
            route: self.route.clone(),
            r#type: text(&self.message_type),
            kind: text(&self.kind),
            code: text(&self.code),
            cause: text(&self.cause),
            correlation_id: text(&self.correlation_id),
            message_id: text(&self.message_id),
            since: self.since.clone(),
            until: self.until.clone(),
            min_attempts: self.min_attempts,
            replayed: self.replayed(),
            state: self.state.clone(),
        }
    }

    fn replayed(&self) -> Option<bool> {
        match (self.replayed, self.never_replayed) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            _ => None,
        }
    }

    /// The query limited to dead letters that can be selected, unless a state was given.
    pub(super) fn query_of_open(&self) -> String {
        let state = if self.state.is_none() { "&state=open" } else { "" };
        format!("{}{state}", self.query())
    }

    /// As command-line flags: ` --queue lab`.
    pub(super) fn flags(&self) -> String {
        let flag = |(name, text): &(&str, String)| match (*name, text.as_str()) {
            ("replayed", "true") => " --replayed".to_owned(),
            ("replayed", _) => " --never-replayed".to_owned(),
            ("kind", text) => format!(" --kind {}", text.to_lowercase().replace(' ', "-")),
            (name, text) => format!(" --{} {}", name.replace('_', "-"), shell::quote(text)),
        };
        self.request().pairs().iter().map(flag).collect()
    }
}

fn kind(text: &str) -> Result<FailureKind, String> {
    let words = text.replace(['-', '_'], " ");
    let found =
        FailureKind::ALL.iter().copied().find(|kind| kind.as_str().eq_ignore_ascii_case(&words));
    found.ok_or_else(|| {
        let known =
            FailureKind::ALL.iter().map(|kind| kind.as_str().to_lowercase().replace(' ', "-"));
        format!("expected one of: {}", known.collect::<Vec<_>>().join(", "))
    })
}

/// A code, or what lists show: `http.503 (transient)`.
fn code(text: &str) -> Result<Code, Invalid> {
    let alone = text.split_once(" (").filter(|(_, kind)| kind.ends_with(')'));
    Code::new(alone.map_or(text, |(code, _)| code))
}

/// Parses the id of a cause, or its beginning.
pub(super) fn cause(text: &str) -> Result<Abbreviated<CauseId>, Invalid> {
    text.parse().or_else(|()| CauseId::new(text).map(Abbreviated::Whole))
}

/// A time or an age, unchanged: the gateway's clock decides what an age means.
fn moment(text: &str) -> Result<String, &'static str> {
    let is_one = text.parse::<Timestamp>().is_ok() || duration::parse(text).is_ok();
    let form = "expected a time such as 2026-11-14T09:30:00Z or an age such as 2h";
    if is_one { Ok(text.trim().to_owned()) } else { Err(form) }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Parser)]
    struct TestArguments {
        #[command(flatten)]
        filter: Filter,
    }

    fn filter(line: &str) -> Result<Filter, clap::Error> {
        TestArguments::try_parse_from(["x"].into_iter().chain(line.split_whitespace()))
            .map(|it| it.filter)
    }

    #[test]
    fn flags_become_a_query_an_object_and_flags_again() {
        let filter = filter("--queue hospital/a&b --kind ai-service --since 2h --never-replayed");
        let filter = filter.unwrap();
        let expected = "&queue=hospital%2Fa%26b&kind=AI%20service&since=2h&replayed=false";
        assert_eq!(filter.query(), expected);
        assert_eq!(filter.query_of_open(), format!("{expected}&state=open"));
        let expected = json!({
            "queue": "hospital/a&b", "kind": "AI service", "since": "2h", "replayed": false,
        });
        assert_eq!(serde_json::to_value(filter.request()).unwrap(), expected);
        let flags = " --queue 'hospital/a&b' --kind ai-service --since 2h --never-replayed";
        assert_eq!(filter.flags(), flags);
    }

    #[test]
    fn every_flag_is_read_and_no_flags_are_an_empty_filter() {
        let every = "--queue q --type t --kind transient --code c --cause v1:0123456789abcdef \
                     --correlation-id c --message-id m --since 2026-11-14T09:30:00Z --until 1h30m \
                     --min-attempts 3 --replayed --state open";
        assert_eq!(filter(every).unwrap().request().pairs().len(), 12);
        assert!(filter("").unwrap().is_empty());
    }

    #[test]
    fn a_code_is_accepted_as_lists_show_it() {
        for text in ["http.503", "http.503 (transient)", "problems/unknown-ward (permanent)"] {
            let read = TestArguments::try_parse_from(["x", "--code", text]).unwrap();
            let expected = text.split(' ').next().unwrap().replace('/', "%2F");
            assert_eq!(read.filter.query(), format!("&code={expected}"));
        }
    }

    #[test]
    fn a_kind_is_accepted_in_every_spelling_and_all_kinds_are_listed() {
        for (text, expected) in [
            ("not-found", "not%20found"),
            ("not_found", "not%20found"),
            ("ai_service", "AI%20service"),
            ("AI-service", "AI%20service"),
        ] {
            let query = filter(&format!("--kind {text}")).unwrap().query();
            assert_eq!(query, format!("&kind={expected}"), "{text}");
        }
        let help = <TestArguments as clap::CommandFactory>::command().render_help().to_string();
        let refused = filter("--kind notfound").unwrap_err().to_string();
        for kind in FailureKind::ALL {
            let name = kind.as_str().to_lowercase().replace(' ', "-");
            assert!(help.contains(&name) && refused.contains(&name), "{name}: {help} {refused}");
        }
    }

    #[test]
    fn an_invalid_filter_is_rejected() {
        for line in [
            "--kind sometimes",
            "--cause 7",
            "--since yesterday",
            "--until 5",
            "--replayed --never-replayed",
            "--state dead",
            "--min-attempts many",
            "--code a,b",
        ] {
            assert!(filter(line).is_err(), "{line}");
        }
    }
}
