//! Messages that are changed in transit.

use std::sync::Arc;

use bezoar_core::{Body, CorrelationId, HeaderValue, Ledger, MessageType, millis};

use super::{Control, Twist, received, sent};

pub(crate) fn controls() -> Vec<Control> {
    [envelopes(), bodies(), odd_headers()].into_iter().flatten().collect()
}

fn envelopes() -> Vec<Control> {
    vec![
        Control::new(
            "loses the correlation id",
            || sent(|message| message.correlation_id = None),
            &["envelope::every_field_comes_back", "sending::a_message_arrives_as_it_was_sent"],
        ),
        Control::new(
            "loses the causation id",
            || sent(|message| message.causation_id = None),
            &["envelope::every_field_comes_back", "dead_letters::everything_sent_is_kept"],
        ),
        Control::new(
            "invents a correlation id",
            || {
                sent(|message| {
                    message.correlation_id.get_or_insert(CorrelationId::new("none").unwrap());
                })
            },
            &["envelope::absent_fields_stay_absent"],
        ),
        Control::new(
            "keeps only ASCII in names",
            || {
                sent(|message| {
                    let ascii = message.message_type.as_str().replace(|c: char| !c.is_ascii(), "?");
                    message.message_type = MessageType::new(ascii).unwrap();
                })
            },
            &["envelope::names_of_any_script_come_back"],
        ),
        Control::new(
            "cuts long names",
            || {
                sent(|message| {
                    let text = message.message_type.as_str();
                    let cut = &text[..text.floor_char_boundary(100)];
                    message.message_type = MessageType::new(cut).unwrap();
                })
            },
            &["envelope::names_of_full_length_come_back"],
        ),
        Control::new(
            "keeps times to the second",
            || sent(|message| message.time = millis(message.time.as_second() * 1_000)),
            &["envelope::times_keep_their_milliseconds"],
        ),
        Control::new(
            "sends messages without their ledger",
            || sent(|message| message.ledger = Ledger::default()),
            &["envelope::a_ledger_is_sent_with_its_message"],
        ),
        Control::new(
            "reads the history only of messages that were counted as failed or replayed",
            || {
                received(|held| {
                    let Ledger { acquired, failed, released, replayed, .. } = held.message.ledger;
                    if failed == 0 && replayed == 0 {
                        Arc::make_mut(&mut held.message).ledger =
                            Ledger::restored(acquired, 0, released, 0, Vec::new());
                    }
                })
            },
            &["envelope::a_history_is_kept_whatever_the_counts_say"],
        ),
    ]
}

fn bodies() -> Vec<Control> {
    vec![
        Control::new(
            "truncates bodies",
            || body(|bytes| bytes[..bytes.len().min(100)].to_vec()),
            &[
                "bodies::every_byte_value_comes_back",
                "bodies::a_body_of_the_greatest_size_comes_back",
            ],
        ),
        Control::new(
            "ends bodies at the first NUL",
            || body(|bytes| bytes.iter().copied().take_while(|byte| *byte != 0).collect()),
            &["bodies::a_single_byte_comes_back", "bodies::every_byte_value_comes_back"],
        ),
        Control::new(
            "treats bodies as UTF-8",
            || body(|bytes| String::from_utf8_lossy(bytes).into_owned().into()),
            &["bodies::text_that_is_not_utf_8_comes_back", "bodies::every_byte_value_comes_back"],
        ),
        Control::new(
            "sends null for an empty body",
            || body(|bytes| if bytes.is_empty() { b"null".to_vec() } else { bytes.to_vec() }),
            &["bodies::an_empty_body_comes_back"],
        ),
        Control::new(
            "trims bodies",
            || body(|bytes| bytes.trim_ascii().to_vec()),
            &["bodies::a_body_that_looks_encoded_is_left_as_it_is"],
        ),
        Control::new(
            "refuses a body of the size that it declares",
            || Twist {
                capabilities: Box::new(|can| can.max_message_bytes += 1),
                ..Twist::default()
            },
            &["bodies::a_body_of_the_greatest_size_comes_back"],
        ),
        Control::new(
            "accepts a byte more than it declares",
            || Twist {
                capabilities: Box::new(|can| can.max_message_bytes -= 1),
                ..Twist::default()
            },
            &["bodies::one_byte_more_is_refused_with_all_that_matters"],
        ),
    ]
}

fn body(change: fn(&[u8]) -> Vec<u8>) -> Twist {
    sent(move |message| message.body = Body::from(change(message.body.reveal())))
}

fn odd_headers() -> Vec<Control> {
    const OWN: [&str; 3] = ["id", "content-type", "x-death"];
    vec![
        Control::new(
            "drops headers without a value",
            || headers(|name, value| (!value.is_empty()).then_some((name, value))),
            &["headers::an_empty_value_comes_back", "replay::everything_sent_comes_back"],
        ),
        Control::new(
            "keeps only ASCII in names of headers",
            || headers(|name, value| Some((name.replace(|c: char| !c.is_ascii(), "?"), value))),
            &["headers::names_of_any_script_come_back"],
        ),
        Control::new(
            "drops control characters from headers",
            || headers(|name, value| Some((name, value.replace(char::is_control, "")))),
            &["headers::control_characters_and_quotes_come_back"],
        ),
        Control::new(
            "writes names of headers in lower case",
            || headers(|name, value| Some((name.to_lowercase(), value))),
            &["headers::names_that_differ_only_in_case_are_kept_apart"],
        ),
        Control::new(
            "treats headers of users as its own",
            || headers(|name, value| (!OWN.contains(&&*name)).then_some((name, value))),
            &["headers::names_like_our_own_come_back"],
        ),
        Control::new(
            "keeps a hundred headers",
            || {
                sent(|message| {
                    message.headers = message.headers.clone().into_iter().take(100).collect()
                })
            },
            &["headers::many_headers_come_back"],
        ),
        Control::new(
            "cuts long values of headers",
            || headers(|name, value| Some((name, value.chars().take(8_000).collect()))),
            &["headers::long_headers_come_back"],
        ),
        Control::new(
            "drops headers that it should refuse",
            || {
                sent(|message| {
                    if message.check_headers().is_err() {
                        message.headers.clear();
                    }
                })
            },
            &[
                "headers::headers_beyond_the_limit_are_refused",
                "headers::a_header_without_a_name_is_refused",
            ],
        ),
    ]
}

/// Changes or drops each header.
fn headers(
    change: impl Fn(String, String) -> Option<(String, String)> + Send + Sync + 'static,
) -> Twist {
    sent(move |message| {
        let headers = std::mem::take(&mut message.headers).into_iter();
        let changed = headers.filter_map(|(name, value)| change(name, value.into_revealed()));
        message.headers = changed.map(|(name, value)| (name, HeaderValue::new(value))).collect();
    })
}
