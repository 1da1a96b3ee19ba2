//! `bezoar whoami`: shows what the token may do.

use anyhow::Result;
use bezoar_gateway::api_types::{Identity, Permission};

use crate::{client::ApiClient, output, table::Table};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Print the gateway's JSON instead of text
    #[arg(long)]
    json: bool,
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
    let mut facts = Table::of_facts();
    facts.push(["name".into(), identity.name.as_str().into()]);
    facts.push(["role".into(), identity.role.as_str().into()]);
    facts.push(["queues".into(), queues.into()]);
    for (label, allowed) in [("may", true), ("may not", false)] {
        let is_one = |it: &&Permission| identity.permissions.contains(it) == allowed;
        for (place, what) in Permission::ALL.iter().filter(is_one).enumerate() {
            facts.push([if place == 0 { label } else { "" }.into(), words(*what).into()]);
        }
    }
    facts.push(["gateway".into(), format!("{url}, version {}", identity.version).into()]);
    facts.render()
}

/// What a permission allows.
fn words(permission: Permission) -> &'static str {
    match permission {
        Permission::ViewMetadata => "see counts and metadata",
        Permission::SendMessages => "send messages",
        Permission::PauseRoutes => "pause and resume routes",
        Permission::ReplayDeadLetters => "replay dead letters",
        Permission::RunPoisonRetries => "run poison retries",
        Permission::MarkCauses => "mark causes",
        Permission::ReadAuditLog => "read the audit log",
        Permission::RevealContent => "reveal bodies, header values and error texts, with a reason",
        Permission::EditDeadLetters => "edit dead letters",
        Permission::ApproveEdits => "approve dead letters that someone else edited",
        Permission::DiscardDeadLetters => "discard dead letters",
        Permission::TransferDeadLetters => "export and import dead letters",
        Permission::Unknown => "something that this version does not know",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_identity_is_printed_as_text() {
        let identity = serde_json::from_value(json!({
            "name": "oncall", "role": "viewer", "queues": ["lab", "x-ray"], "version": "0.1.0",
            "permissions": ["view_metadata", "mark_causes"],
        }));
        let expected = [
            "name     oncall",
            "role     viewer",
            "queues   lab, x-ray",
            "may      see counts and metadata",
            "         mark causes",
            "may not  send messages",
            "         pause and resume routes",
            "         replay dead letters",
            "         run poison retries",
            "         read the audit log",
            "         reveal bodies, header values and error texts, with a reason",
            "         edit dead letters",
            "         approve dead letters that someone else edited",
            "         discard dead letters",
            "         export and import dead letters",
            "gateway  http://h:1, version 0.1.0",
            "",
        ];
        assert_eq!(facts(&identity.unwrap(), "http://h:1"), expected.join("\n"));
    }
}
