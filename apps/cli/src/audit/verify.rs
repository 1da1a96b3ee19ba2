//! `bezoar audit verify`: recomputes the hash chain on this machine instead of trusting the gateway's answer.

use anyhow::{Context as _, Result, bail};
use bezoar::catalogue::{AuditBreak, AuditHash, AuditHead};
use bezoar_gateway::api_types::AuditPage;
use serde_json::json;

use super::entry;
use crate::{client::ApiClient, humanize::plural, output};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Hash printed by an earlier run; fails if the log no longer contains it
    #[arg(long, value_name = "HASH", value_parser = entry::hash)]
    head: Option<AuditHash>,
    /// Print JSON instead of the bare hash
    #[arg(long)]
    json: bool,
}

/// How far the log was verified.
struct Verification {
    head: AuditHead,
    /// A hash from an earlier run, and the entry that has it.
    noted: Option<AuditHash>,
    noted_at: Option<u64>,
    /// What the gateway noted outside of its store before the first page was read.
    anchor: Option<AuditHead>,
}

pub(crate) async fn run(arguments: Arguments, client: &ApiClient) -> Result<()> {
    let mut verification = Verification::new(arguments.head);
    loop {
        let after = verification.head.count;
        let path = format!("/v1/audit?order=oldest_first&after={after}&limit=1000");
        let page: AuditPage = client.get(&path).await?.parse()?;
        if after == 0 {
            verification.begin(&page);
        }
        if verification.follow(&page).with_context(|| intact_up_to(after))? == Position::End {
            break;
        }
    }
    let AuditHead { count, hash } = verification.head;
    if verification.noted.is_some() && verification.noted_at.is_none() {
        bail!(
            "none of {} has the hash given with --head: the log was rewritten, or the hash belongs to another log",
            entries(count)
        );
    }
    output::print(&match arguments.json {
        true => format!("{}\n", json!({ "entries": count, "head": hash.to_string() })),
        false => format!("{hash}\n"),
    })?;
    report(&verification);
    Ok(())
}

/// The last entry that verified.
fn intact_up_to(after: u64) -> String {
    format!("the audit log was tampered with; entries up to {after} are intact")
}

fn report(verification: &Verification) {
    output::say(&format!(
        "verified {}: none was changed, removed or added",
        entries(verification.head.count)
    ));
    match verification.noted_at {
        Some(number) => {
            output::say(&format!("the hash given with --head belongs to entry {number}"))
        }
        None => output::say(
            "store this hash outside of the gateway and pass it with --head next time, to detect a log that was \
             rewritten as a whole",
        ),
    }
}

fn entries(number: u64) -> String {
    if number == 1 { "1 entry".to_owned() } else { plural(number, "entrie") }
}

/// Whether there are more pages.
#[derive(Debug, PartialEq, Eq)]
enum Position {
    Middle,
    End,
}

impl Verification {
    fn new(noted: Option<AuditHash>) -> Self {
        let at_start = noted.filter(|noted| *noted == AuditHead::START.hash);
        Self { head: AuditHead::START, noted, noted_at: at_start.map(|_| 0), anchor: None }
    }

    /// Remembers what must be in the log.
    fn begin(&mut self, page: &AuditPage) {
        self.anchor = page.noted.as_ref().and_then(entry::kept);
    }

    /// Verifies a page; at the end of the log, also that it ends at the stored head.
    fn follow(&mut self, page: &AuditPage) -> Result<Position, AuditBreak> {
        for entry in &page.items {
            let written = entry::written(entry).ok_or(AuditBreak::Changed(self.head.count + 1))?;
            self.head = self.head.follow(&written)?;
            if self.anchor.is_some_and(|it| it.count == self.head.count && it != self.head) {
                return Err(AuditBreak::Changed(self.head.count));
            }
            if self.noted == Some(self.head.hash) {
                self.noted_at = Some(self.head.count);
            }
        }
        if !page.items.is_empty() && self.head.count < page.head.count {
            return Ok(Position::Middle);
        }
        let kept = entry::kept(&page.head).ok_or(AuditBreak::Changed(page.head.count))?;
        self.head.ends_at(&kept)?;
        match self.anchor {
            Some(anchor) if anchor.count > self.head.count => {
                Err(AuditBreak::Missing(self.head.count + 1))
            }
            _ => Ok(Position::End),
        }
    }
}

#[cfg(test)]
mod tests {
    use bezoar::catalogue::{AuditedAction, Verb};
    use jiff::Timestamp;
    use serde_json::Value;

    use super::*;

    fn log(number: u64) -> (Vec<Value>, AuditHead) {
        let (mut entries, mut head) = (Vec::new(), AuditHead::START);
        for _ in 0..number {
            let action = AuditedAction {
                actor: "ada".to_owned(),
                address: "127.0.0.1".to_owned(),
                verb: Verb::Reveal,
                target: "dead letter 7".to_owned(),
                reason: "ticket".to_owned(),
            };
            let (entry, after) = head.append(Timestamp::UNIX_EPOCH, &action);
            entries.push(json!({
                "number": entry.number, "recorded_at": entry.at, "actor": entry.actor,
                "address": entry.address, "verb": entry.verb, "target": entry.target,
                "reason": entry.reason,
                "hash": entry.hash.to_string(),
            }));
            head = after;
        }
        (entries, head)
    }

    fn page(entries: &[Value], head: AuditHead) -> AuditPage {
        let head = json!({ "count": head.count, "hash": head.hash.to_string() });
        serde_json::from_value(json!({ "items": entries, "next": null, "head": head })).unwrap()
    }

    #[test]
    fn a_log_is_verified_page_by_page_to_its_end() {
        let (entries, head) = log(5);
        let mut verification =
            Verification::new(entries[3]["hash"].as_str().map(|it| entry::hash(it).unwrap()));
        assert_eq!(verification.follow(&page(&entries[..3], head)), Ok(Position::Middle));
        assert_eq!(verification.follow(&page(&entries[3..], head)), Ok(Position::End));
        assert_eq!((verification.head, verification.noted_at), (head, Some(4)));
        let mut empty = Verification::new(None);
        assert_eq!(empty.follow(&page(&[], AuditHead::START)), Ok(Position::End));
    }

    #[test]
    fn an_end_that_was_cut_with_its_head_contradicts_what_was_noted() {
        let (entries, head) = log(5);
        let noted = json!({ "count": head.count, "hash": head.hash.to_string() });
        let check = |entries: &[Value], head: AuditHead| {
            let mut page = page(entries, head);
            page.noted = serde_json::from_value(noted.clone()).unwrap();
            let mut verification = Verification::new(None);
            verification.begin(&page);
            verification.follow(&page)
        };
        assert_eq!(check(&entries, head), Ok(Position::End));
        let (shorter, end) = log(4);
        assert_eq!(check(&shorter, end), Err(AuditBreak::Missing(5)));
        assert_eq!(Verification::new(None).follow(&page(&shorter, end)), Ok(Position::End));
        let (mut rewritten, end) = (shorter, end);
        let action = AuditedAction {
            actor: "eve".to_owned(),
            address: String::new(),
            verb: Verb::Mark,
            target: String::new(),
            reason: String::new(),
        };
        let (entry, end) = end.append(Timestamp::UNIX_EPOCH, &action);
        rewritten.push(json!({
            "number": 5, "recorded_at": entry.at, "actor": "eve", "verb": entry.verb,
            "hash": entry.hash.to_string(),
        }));
        assert_eq!(check(&rewritten, end), Err(AuditBreak::Changed(5)));
    }

    #[test]
    fn a_changed_removed_or_truncated_entry_is_named() {
        type Harm = fn(&mut Vec<Value>);
        let harms: [(Harm, AuditBreak); 4] = [
            (|it| it[1]["reason"] = "nothing".into(), AuditBreak::Changed(2)),
            (|it| it[2]["recorded_at"] = "1970-01-02T00:00:00Z".into(), AuditBreak::Changed(3)),
            (|it| drop(it.remove(2)), AuditBreak::Missing(3)),
            (Vec::clear, AuditBreak::Missing(1)),
        ];
        for (harm, expected) in harms {
            let (mut entries, head) = log(5);
            harm(&mut entries);
            assert_eq!(Verification::new(None).follow(&page(&entries, head)), Err(expected));
        }
        let (entries, _) = log(5);
        let (_, shorter) = log(4);
        let added = Verification::new(None).follow(&page(&entries, shorter));
        assert_eq!(added, Err(AuditBreak::Added(5)));
    }
}
