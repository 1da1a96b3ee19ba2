//! `bezoar whoami`: shows what the token may do.

use std::collections::BTreeMap;

use anyhow::Result;
use serde::Deserialize;

use crate::{client::ApiClient, humanize, output, table::Table};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Print the gateway's JSON instead of text
    #[arg(long)]
    json: bool,
}

#[derive(Deserialize)]
struct Identity {
    name: String,
    role: String,
    /// `None` means all queues.
    queues: Option<Vec<String>>,
    #[serde(default)]
    may: BTreeMap<String, bool>,
    version: Option<String>,
}

pub(crate) async fn run(arguments: Arguments, client: &ApiClient) -> Result<()> {
    let reply = client.get("/v1/whoami").await?;
    if arguments.json {
        return output::print_json(&reply).map(drop);
    }
    output::print(&facts(&reply.parse()?, &client.url().to_string())).map(drop)
}

fn facts(identity: &Identity, url: &str) -> String {
    let queues = identity.queues.as_ref().map_or("all".to_owned(), |queues| queues.join(", "));
    let version = identity.version.as_deref().unwrap_or(humanize::UNKNOWN);
    let mut facts = Table::of_facts();
    facts.push(["name".into(), identity.name.as_str().into()]);
    facts.push(["role".into(), identity.role.as_str().into()]);
    facts.push(["queues".into(), queues.into()]);
    for (label, allowed) in [("may", true), ("may not", false)] {
        let all = identity.may.iter().filter(|(_, may)| **may == allowed);
        for (place, (what, _)) in all.enumerate() {
            facts.push([if place == 0 { label } else { "" }.into(), what.as_str().into()]);
        }
    }
    facts.push(["gateway".into(), format!("{url}, version {version}").into()]);
    facts.render()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_identity_is_printed_as_text() {
        let identity = serde_json::from_value(json!({
            "name": "oncall", "role": "viewer", "queues": ["lab", "x-ray"], "version": "0.1.0",
            "may": { "see counts and metadata": true, "send messages": false, "mark causes": true },
        }));
        let expected = [
            "name     oncall",
            "role     viewer",
            "queues   lab, x-ray",
            "may      mark causes",
            "         see counts and metadata",
            "may not  send messages",
            "gateway  http://h:1, version 0.1.0",
            "",
        ];
        assert_eq!(facts(&identity.unwrap(), "http://h:1"), expected.join("\n"));
    }
}
