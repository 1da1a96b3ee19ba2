//! Help: the commands in groups, and examples for each.

use clap::Command;

/// Every visible command, in the order in which people meet them.
const GROUPS: &[(&str, &[&str])] = &[
    ("Run a gateway", &["demo", "up", "check", "provision", "config", "schema", "bench"]),
    ("Send and watch", &["send", "status", "queues", "top", "message", "health"]),
    ("Dead letters", &["dead", "poison-retry"]),
    ("Routes and tokens", &["pause", "resume", "audit", "whoami"]),
    ("Other", &["completions", "help"]),
];

/// Examples by command.
const EXAMPLES: &[(&str, &[&str])] = &[
    ("demo", &["bezoar demo --seconds 20"]),
    (
        "up",
        &[
            "bezoar up",
            "bezoar up --config /etc/bezoar/bezoar.toml",
            "bezoar up --set server.listen=127.0.0.1:9000",
        ],
    ),
    ("check", &["bezoar check", "bezoar check --config /etc/bezoar/bezoar.toml"]),
    ("provision", &["bezoar provision", "bezoar provision hospital/blood --print"]),
    ("config show", &["bezoar config show", "bezoar config show --json"]),
    (
        "schema print",
        &["bezoar schema print postgres", "bezoar schema print postgres --schema lab > lab.sql"],
    ),
    (
        "send",
        &[
            "bezoar send results --type lab.result --body '{\"patient\": 7}'",
            "bezoar send results result.json",
            "bezoar send results --lines results.ndjson --id import-7",
        ],
    ),
    ("status", &["bezoar status", "bezoar status --json"]),
    ("message", &["bezoar message 01a1e246-92c5-7768-b2bf-b167a2110496"]),
    ("queues", &["bezoar queues", "bezoar queues --watch", "bezoar queues --json"]),
    ("dead list", &["bezoar dead list", "bezoar dead list --queue results --since 2h"]),
    ("dead causes", &["bezoar dead causes", "bezoar dead causes --queue results"]),
    ("dead ack", &["bezoar dead ack v1:7da2268dc9730ffb --note 'ticket 7'"]),
    ("dead show", &["bezoar dead show dl_g4jmah4z"]),
    ("dead reveal", &["bezoar dead reveal dl_g4jmah4z --reason 'ticket 7'"]),
    (
        "dead replay",
        &[
            "bezoar dead replay dl_g4jmah4z --reason 'fixed'",
            "bezoar dead replay --cause v1:7da2268dc9730ffb --canary 2 --rate 50/s --reason 'fixed'",
            "bezoar dead replay --all --plan --reason 'fixed'",
        ],
    ),
    (
        "dead replays",
        &["bezoar dead replays", "bezoar dead replays op_209aaw0b --pause --reason 'too fast'"],
    ),
    ("dead edit", &["bezoar dead edit dl_g4jmah4z --reason 'ticket 7'"]),
    ("dead discard", &["bezoar dead discard --type lab.test --reason 'test data'"]),
    (
        "dead export",
        &["bezoar dead export --queue results --reason 'ticket 7' --output results.ndjson"],
    ),
    ("dead import", &["bezoar dead import results.ndjson --reason 'ticket 7'"]),
    ("audit list", &["bezoar audit list"]),
    ("audit verify", &["bezoar audit verify"]),
    ("pause", &["bezoar pause results"]),
    ("resume", &["bezoar resume results"]),
    ("poison-retry run", &["bezoar poison-retry run lab/results-poison"]),
    ("bench", &["bezoar bench --seconds 10", "bezoar bench --rate 500 --size 4KiB"]),
    (
        "completions",
        &[
            "bezoar completions bash > ~/.local/share/bash-completion/completions/bezoar",
            "bezoar completions zsh > ~/.zfunc/_bezoar",
            "bezoar completions fish > ~/.config/fish/completions/bezoar.fish",
        ],
    ),
];

/// Adds groups and examples to the program's help.
pub(crate) fn improve(program: Command) -> Command {
    let groups = groups(&program);
    let program = EXAMPLES.iter().fold(program, |program, (path, examples)| {
        let words: Vec<_> = path.split(' ').collect();
        with_examples(program, &words, examples)
    });
    program.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}{{options}}{{after-help}}"
    ))
}

fn groups(program: &Command) -> String {
    let about = |name: &str| match program.find_subcommand(name).and_then(Command::get_about) {
        Some(about) => about.to_string(),
        None => "Print this message or the help of a command".to_owned(),
    };
    let line = |name: &&str| format!("  {name:<13} {}\n", about(name));
    let group = |(title, names): &(&str, &[&str])| {
        format!("{title}:\n{}\n", names.iter().map(line).collect::<String>())
    };
    GROUPS.iter().map(group).collect::<String>() + "Options:\n"
}

fn with_examples(command: Command, path: &[&str], examples: &[&str]) -> Command {
    match path {
        [] => {
            let lines: String = examples.iter().map(|line| format!("\n  {line}")).collect();
            let before = command.get_after_help().map(|it| format!("{it}\n\n")).unwrap_or_default();
            command.after_help(format!("{before}Examples:{lines}"))
        }
        [name, rest @ ..] => {
            command.mut_subcommand(*name, |command| with_examples(command, rest, examples))
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn every_command_is_in_a_group_and_every_group_has_commands() {
        let program = crate::Arguments::command();
        let visible = program.get_subcommands().filter(|it| !it.is_hide_set());
        let mut commands: Vec<_> = visible.map(|it| it.get_name().to_owned()).collect();
        commands.push("help".to_owned());
        let mut grouped: Vec<_> = GROUPS.iter().flat_map(|(_, names)| names.to_vec()).collect();
        commands.sort();
        grouped.sort_unstable();
        assert_eq!(commands, grouped);
    }

    #[test]
    fn every_example_can_be_parsed() {
        for line in EXAMPLES.iter().flat_map(|(_, examples)| examples.iter()) {
            let line = line.split(" > ").next().unwrap();
            let words = words(line);
            let parsed = crate::program().try_get_matches_from(&words);
            assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
        }
    }

    /// Splits a line at spaces outside single quotes.
    fn words(line: &str) -> Vec<String> {
        let part = |(index, part): (usize, &str)| match index % 2 {
            0 => part.split_whitespace().map(str::to_owned).collect(),
            _ => vec![part.to_owned()],
        };
        line.split('\'').enumerate().flat_map(part).collect()
    }
}
