//! A secret is in nothing that can be printed.

use super::*;
use crate::config::{show, show_text};

const CANARY: &str = "CANARYCANARYCANARYCANARYCANARYCA";

fn resolve_canary(source: &SecretSource) -> Result<String, String> {
    match source.to_string().as_str() {
        "env:SIGNING" => Ok(format!("whsec_{CANARY}")),
        "env:BAD" => Ok(format!("{CANARY}\n")),
        "env:UNSIGNED" => Ok(CANARY.to_owned()),
        "env:SHORT" => Ok("CANARY".to_owned()),
        "env:NONE" => Err("is not set".to_owned()),
        _ => Ok(CANARY.to_owned()),
    }
}

#[track_caller]
fn check(text: &str) {
    let text = text.replace("CANARY", CANARY);
    let sources = sources(&text);
    let printed = match load(&sources, &resolve_canary) {
        Ok(loaded) => {
            let json = serde_json::to_string(&show(&loaded)).unwrap();
            let warnings: Vec<_> = loaded.warnings.iter().map(ToString::to_string).collect();
            let routes: Vec<_> = loaded.config.routes.iter().collect();
            let headers: Vec<_> = routes.iter().map(|route| route.extra_headers()).collect();
            let secrets: Vec<_> = routes.iter().map(|route| route.signing_secrets()).collect();
            format!(
                "{loaded:?} {loaded:#?} {json} {} {warnings:?} {headers:?} {secrets:?}",
                show_text(&loaded)
            )
        }
        Err(problems) => {
            let json = serde_json::to_string(&problems).unwrap();
            format!("{problems} {problems:?} {json}")
        }
    };
    let printed = format!("{printed} {sources:?}");
    assert!(!printed.contains("CANARY"), "{text}\n{printed}");
}

#[test]
fn secrets_of_a_configuration_that_loads_are_not_printed() {
    check("[[token]]\nname = 'a'\nrole = 'admin'\nsecret = 'CANARY'");
    check("[[token]]\nname = 'a'\nrole = 'admin'\nsecret = 'env:TOKEN'");
    let route = "[[route]]\nname = 'a'\nfrom = 'a'\n";
    check(&format!("{route}to = 'http://h/CANARY?key=CANARY'\nsecret = 'whsec_CANARY'"));
    check(&format!("{route}to = 'http://h/'\nsecret = ['env:SIGNING', 'whsec_CANARY']"));
    check(&format!("{route}to = 'http://h/'\nheaders = {{ X = 'CANARY', Y = 'env:TOKEN' }}"));
    let lab = "[transports.lab]\nurl = 'azurequeue:'\n";
    check(&format!("{lab}connection_string = 'AccountName=lab;AccountKey=CANARYCA'"));
    let account = "account = 'https://lab.queue.core.windows.net'";
    check(&format!("{lab}{account}\nsas = 'sv=1&sig=CANARY'"));
    check(&format!(
        "{lab}{account}\ncredential = 'client-secret'\ntenant_id = 't'\nclient_id = 'c'\nclient_secret = 'CANARY'"
    ));
    check("[telemetry]\notlp_endpoint = 'http://h/CANARY'");
}

#[test]
fn secrets_of_a_configuration_that_is_wrong_are_not_printed() {
    for line in [
        "secret = 'CANARY CANARY'",
        "secret = 'env:CANARY-'",
        "secret = 'env:whsec_CANARY'",
        "secret = 'env:BAD'",
        "secret = 'env:SHORT'",
        "secret = ['CANARY']",
        "secret = { a = 'CANARY' }",
        "secert = 'CANARY'",
        "queues = ['CANARY", // no TOML
        "secret = \"CANARY",
        "secret = CANARY",
        "secret = \"\"\"CANARY\nCANARY\n",
        "secret = 'CANARY' 'CANARY'",
        "secret: CANARY",
        "secret 'CANARY'",
        "name = 'a' secret = 'CANARY'",
        "secret = 'CANARY'\nsecret = 'CANARY'",
        "CANARY",
        "# \u{1} CANARY",
    ] {
        check(&format!("[[token]]\nname = 'a'\nrole = 'admin'\n{line}\n"));
    }
    for line in [
        "to = 'http://user:CANARY@h/'",
        "to = 'CANARY'",
        "to = 'http://h:x/CANARY'",
        "to = ['CANARY']",
        "tls_key = 'CANARY'",
        "tls_certificate = 'CANARY'\ntls_key = '-----BEGIN CANARY'",
        "secret = 'CANARY'",
        "secret = 'whsec_CANARY!'",
        "secret = ['env:UNSIGNED', 1]",
        "headers = { Content-Length = 'CANARY' }",
        "headers = { X = ['CANARY'] }",
        "headers = ['CANARY']",
        "headers = { X = \"CANARY\\n\" }",
        "headers = { X = 'CANARY' oops }",
        "headers = { X = 'CANÄRY CANARY' }",
    ] {
        check(&format!("[[route]]\nname = 'a'\nfrom = 'a'\n{line}\n"));
    }
    let lab = "[transports.lab]\nurl = 'azurequeue:'\n";
    for line in [
        "connection_string = 'CANARY'",
        "connection_string = 'AccountName=lab;AccountKey=CANARY!'",
        "connection_string = 'AccountName=lab;AccountKey=CANARY'\nprefetch = 99",
        "conection_string = 'AccountName=lab;AccountKey=CANARY'",
        "connection_string = ['CANARY']",
        "account = 'https://lab.queue.core.windows.net?sig=CANARY'\nsas = 'env:TOKEN'",
        "account = 'https://user:CANARY@h/'\nsas = 'sig=CANARY'",
        "account = 'ftp://lab'\nsas = 'sig=CANARY'",
        "account = 'https://h'\ncredential = 'client-secret'\nclient_secret = 'CANARY;CANARY'",
        "account = 'https://h'\ncredential = 'client-secret'\nclient_secret = 'CANARY'",
    ] {
        check(&format!("{lab}{line}\n"));
    }
    check("[transports.lab]\nurl = 'azurequeue:AccountKey=CANARY'");
    check("[store]\nurl = 'postgres://user:CANARY@h/'");
    check("[store]\nurl = 'CANARY://user:x@h/'");
}

#[test]
fn secrets_in_variables_and_flags_are_not_printed() {
    for key in ["token[0].secret", "token[0].secrets", "route[0].secret", "route[0].headers.x", "a"]
    {
        let environment = pairs(&[("BEZOAR_TOKEN", CANARY), ("BEZOAR_TOKEN__0__SECRET", CANARY)]);
        let sources = Sources { environment, flags: pairs(&[(key, CANARY)]), ..Sources::default() };
        let problems = load(&sources, &resolve_canary).unwrap_err();
        let printed = format!("{problems} {problems:?} {sources:?}");
        assert!(!printed.contains(CANARY), "{printed}");
    }
}
