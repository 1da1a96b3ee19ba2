//! Whole configurations.

mod azure;
mod canary;
mod contradictions;
mod examples;
mod guide;
mod poison_retry;
mod postgres;
mod presets;
mod properties;
mod reload;
mod sources;

use super::{ConfigProblems, Loaded, SecretSource, Sources, load};

/// A certificate and its key.
const PEM: &str = include_str!("../../endpoint/tests/localhost.pem");

/// Secrets that can be looked up.
fn resolve(source: &SecretSource) -> Result<String, String> {
    match source.to_string().as_str() {
        "env:TOKEN" => Ok("0123456789abcdefghij".to_owned()),
        "env:OTHER_TOKEN" => Ok("jihgfedcba9876543210".to_owned()),
        "env:SIGNING" => Ok("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".to_owned()),
        "env:AZURE" => Ok("AccountName=lab;AccountKey=a2V5".to_owned()),
        "env:SAS" => Ok("?sv=2024&sig=abc".to_owned()),
        "env:WEAK" => Ok("hunter2".to_owned()),
        "file:/run/bearer" => Ok("Bearer abc".to_owned()),
        "file:/etc/bezoar/tls.pem" => Ok(PEM.to_owned()),
        _ => Err("is not set".to_owned()),
    }
}

fn sources(text: &str) -> Sources {
    Sources { file: Some(("bezoar.toml".into(), text.to_owned())), ..Sources::default() }
}

fn load_text(text: &str) -> Result<Loaded, ConfigProblems> {
    load(&sources(text), &resolve)
}

#[track_caller]
fn loaded(text: &str) -> Loaded {
    load_text(text).unwrap_or_else(|problems| panic!("{problems}"))
}

#[track_caller]
fn problems(text: &str) -> Vec<String> {
    let problems = load_text(text).expect_err("it is wrong");
    problems.list().iter().map(ToString::to_string).collect()
}

fn warnings(text: &str) -> Vec<String> {
    loaded(text).warnings.iter().map(ToString::to_string).collect()
}

/// Two pairs of names and texts.
fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}
