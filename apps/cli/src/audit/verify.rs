//! `bezoar audit verify`: the chain of hashes, followed here and not believed.

use anyhow::{Context as _, Result, bail};
use bezoar::catalogue::{AuditHash, AuditHead, Broken};
use serde_json::json;

use super::entry::{self, Page};
use crate::{client::Client, output, words::plural};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// A hash that was noted earlier: the log must still have it, or it was written anew
    #[arg(long, value_name = "HASH", value_parser = entry::hash)]
    head: Option<AuditHash>,
    /// JSON instead of the bare hash
    #[arg(long)]
    json: bool,
}

/// How far the log was followed.
struct Walk {
    head: AuditHead,
    /// A hash that was noted earlier, and whose it is.
    noted: Option<AuditHash>,
    noted_at: Option<u64>,
}

pub(crate) async fn run(arguments: Arguments, client: &Client) -> Result<()> {
    let mut walk = Walk::new(arguments.head);
    loop {
        let after = walk.head.count;
        let page = client.get(&format!("/v1/audit?after={after}&limit=1000")).await?;
        if walk.follow(&page.parse()?).with_context(|| whole(after))? == Place::End {
            break;
        }
    }
    let AuditHead { count, hash } = walk.head;
    if walk.noted.is_some() && walk.noted_at.is_none() {
        bail!(
            "none of {} has the hash that was noted: the log was written anew since, or it is another log's",
            entries(count)
        );
    }
    output::print(&match arguments.json {
        true => format!("{}\n", json!({ "entries": count, "head": hash.to_string() })),
        false => format!("{hash}\n"),
    })?;
    tell(&walk);
    Ok(())
}

/// Where the log is as it was written.
fn whole(after: u64) -> String {
    format!("the audit log is not as it was written; it is up to entry {after}")
}

fn tell(walk: &Walk) {
    output::say(&format!(
        "checked {}: none was changed, removed or added",
        entries(walk.head.count)
    ));
    match walk.noted_at {
        Some(number) => output::say(&format!("the hash that was noted is that of entry {number}")),
        None => output::say(
            "note the hash elsewhere, and give it with --head the next time: so it shows if the whole log is \
             written anew",
        ),
    }
}

fn entries(number: u64) -> String {
    if number == 1 { "1 entry".to_owned() } else { plural(number, "entrie") }
}

/// Whether there is more.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    Middle,
    End,
}

impl Walk {
    fn new(noted: Option<AuditHash>) -> Self {
        let at_start = noted.filter(|noted| *noted == AuditHead::START.hash);
        Self { head: AuditHead::START, noted, noted_at: at_start.map(|_| 0) }
    }

    /// Follows a page. At the end, it is the end that was kept.
    fn follow(&mut self, page: &Page) -> Result<Place, Broken> {
        for entry in &page.entries {
            let written = entry.written().ok_or(Broken::Changed(self.head.count + 1))?;
            self.head = self.head.follow(&written)?;
            if self.noted == Some(self.head.hash) {
                self.noted_at = Some(self.head.count);
            }
        }
        if !page.entries.is_empty() && self.head.count < page.head.count {
            return Ok(Place::Middle);
        }
        let kept = page.head.kept().ok_or(Broken::Changed(page.head.count))?;
        self.head.ends_at(&kept).map(|()| Place::End)
    }
}

#[cfg(test)]
mod tests {
    use bezoar::catalogue::{Act, Verb};
    use jiff::Timestamp;
    use serde_json::Value;

    use super::*;

    fn log(number: u64) -> (Vec<Value>, AuditHead) {
        let (mut entries, mut head) = (Vec::new(), AuditHead::START);
        for _ in 0..number {
            let act = Act {
                who: "ada".to_owned(),
                from: "127.0.0.1".to_owned(),
                verb: Verb::Reveal,
                target: "dead letter 7".to_owned(),
                why: "ticket".to_owned(),
            };
            let (entry, after) = head.append(Timestamp::UNIX_EPOCH, &act);
            entries.push(json!({
                "number": entry.number, "at": entry.at.to_string(), "who": entry.who,
                "from": entry.from, "verb": entry.verb, "target": entry.target, "why": entry.why,
                "hash": entry.hash.to_string(),
            }));
            head = after;
        }
        (entries, head)
    }

    fn page(entries: &[Value], head: AuditHead) -> Page {
        let head = json!({ "count": head.count, "hash": head.hash.to_string() });
        serde_json::from_value(json!({ "entries": entries, "next": null, "head": head })).unwrap()
    }

    #[test]
    fn a_log_is_followed_over_pages_to_its_end() {
        let (entries, head) = log(5);
        let mut walk = Walk::new(entries[3]["hash"].as_str().map(|it| entry::hash(it).unwrap()));
        assert_eq!(walk.follow(&page(&entries[..3], head)), Ok(Place::Middle));
        assert_eq!(walk.follow(&page(&entries[3..], head)), Ok(Place::End));
        assert_eq!((walk.head, walk.noted_at), (head, Some(4)));
        let mut empty = Walk::new(None);
        assert_eq!(empty.follow(&page(&[], AuditHead::START)), Ok(Place::End));
    }

    #[test]
    fn what_was_changed_removed_or_cut_off_is_named() {
        type Harm = fn(&mut Vec<Value>);
        let harms: [(Harm, Broken); 4] = [
            (|it| it[1]["why"] = "nothing".into(), Broken::Changed(2)),
            (|it| it[2]["at"] = "long ago".into(), Broken::Changed(3)),
            (|it| drop(it.remove(2)), Broken::Missing(3)),
            (Vec::clear, Broken::Missing(1)),
        ];
        for (harm, expected) in harms {
            let (mut entries, head) = log(5);
            harm(&mut entries);
            assert_eq!(Walk::new(None).follow(&page(&entries, head)), Err(expected));
        }
        let (entries, _) = log(5);
        let (_, shorter) = log(4);
        let added = Walk::new(None).follow(&page(&entries, shorter));
        assert_eq!(added, Err(Broken::Added(5)));
    }
}
