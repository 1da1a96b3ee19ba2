//! `[[poison_retry]]`: a poison queue whose messages are delivered again.

use bezoar::{
    Jitter, QueueName,
    poison_retry::{MissingSettings, PoisonRetryOptions, RetryFields},
};

use super::{
    AckFormat, EndpointTls,
    route::{ack_mode, extra_headers, headers, refuse_http_only, secrets, signing_secrets},
};
use crate::{
    config::{
        InvalidValue, Name, Secret,
        reader::{Section, SectionReader},
    },
    endpoint::{AckMode, EndpointUrl, ExtraHeaders, SigningSecret},
};

/// The value of `dead_letter` for the default queue.
const CATALOGUE: &str = "catalogue";

/// A poison queue whose messages are delivered again.
#[derive(Debug, Clone, PartialEq)]
pub struct PoisonRetryConfig {
    /// The poison queue.
    pub queue: QueueName,
    /// The URL that messages are posted to.
    pub to: EndpointUrl,
    /// The acknowledgements that replies contain; their status decides if it is not set.
    pub ack: Option<AckFormat>,
    /// How many messages, how often and when.
    pub options: PoisonRetryOptions,
    /// The queue for messages that are given up.
    pub dead_letter: QueueName,
    /// The names of JSON members in messages of other programs.
    pub fields: RetryFields,
    /// Whom to trust, and the client certificate.
    pub tls: EndpointTls,
    secrets: Vec<Secret>,
    headers: Vec<(String, Secret)>,
}

/// Returns `None` if a required key is missing or invalid.
impl PoisonRetryConfig {
    pub(in crate::config) fn read(
        reader: &mut SectionReader<'_>,
        section: &Section<'_>,
    ) -> Option<Self> {
        missing(reader, section);
        let queue: Option<QueueName> = reader.optional(section, "queue");
        let to: Option<EndpointUrl> = reader.optional(section, "to");
        let ack = reader.optional(section, "ack");
        if to.as_ref().is_some_and(EndpointUrl::is_mllp) {
            refuse_http_only(reader, section);
        }
        let options = options(reader, section);
        let dead_letter = reader.or_default(section, "dead_letter");
        let fields = fields(reader, section);
        let secrets = secrets(reader, section);
        let headers = headers(reader, section);
        let tls = EndpointTls::read(reader, section, to.as_ref());
        let queue = queue?;
        let dead_letter = dead_letter_queue(reader, section, &queue, dead_letter)?;
        Some(Self { queue, to: to?, ack, options, dead_letter, fields, tls, secrets, headers })
    }

    /// How the endpoint says that it took a message.
    pub fn ack_mode(&self) -> AckMode {
        ack_mode(self.ack)
    }

    /// The secrets that sign requests.
    pub fn signing_secrets(&self) -> Vec<SigningSecret> {
        signing_secrets(&self.secrets)
    }

    /// Headers that are added to each request.
    pub fn extra_headers(&self) -> ExtraHeaders {
        extra_headers(&self.headers)
    }
}

/// Names all missing keys in one problem.
fn missing(reader: &mut SectionReader<'_>, section: &Section<'_>) {
    let is_set = |key: &'static str| (key, section.has(key));
    if let Err(missing) = MissingSettings::check(&[is_set("queue"), is_set("to")]) {
        let invalid = InvalidValue::new(format!("is incomplete: {missing}"), "set them");
        reader.refuse_section(section, invalid);
    }
}

fn options(reader: &mut SectionReader<'_>, section: &Section<'_>) -> PoisonRetryOptions {
    let (jitter, most): (bool, f64) =
        (reader.or_default(section, "jitter"), reader.or_default(section, "jitter_most"));
    let options = PoisonRetryOptions {
        every: reader.or_default(section, "every"),
        batch: reader.or_default(section, "batch"),
        batches: reader.or_default(section, "batches"),
        max_attempts: reader.or_default(section, "max_attempts"),
        base: reader.or_default(section, "base"),
        invisibility: reader.or_default(section, "invisibility"),
        jitter: if jitter { Jitter::Lengthening(most) } else { Jitter::None },
        timeout: reader.or_default(section, "timeout"),
    };
    for invalid in options.check().err().into_iter().flat_map(|it| it.0) {
        let remedy = match invalid.field {
            "base" => "lower base, max_attempts or jitter_most",
            _ => "change one of them",
        };
        reader.refuse(section, invalid.field, InvalidValue::new(invalid.problem, remedy));
    }
    options
}

fn fields(reader: &mut SectionReader<'_>, section: &Section<'_>) -> RetryFields {
    let retry_count: Name = reader.or_default(section, "retry_count_field");
    let correlation_id: Name = reader.or_default(section, "correlation_id_field");
    let body: Option<Name> = reader.optional(section, "body_field");
    let fields = RetryFields {
        retry_count: retry_count.to_string(),
        correlation_id: correlation_id.to_string(),
        body: body.map(|body| body.to_string()),
    };
    if let Err(invalid) = fields.check() {
        let problem = format!("cannot be used: {invalid}");
        let invalid = InvalidValue::new(problem, "use another name");
        reader.refuse(section, "retry_count_field", invalid);
    }
    fields
}

fn dead_letter_queue(
    reader: &mut SectionReader<'_>,
    section: &Section<'_>,
    queue: &QueueName,
    written: QueueName,
) -> Option<QueueName> {
    if written.as_str() != CATALOGUE {
        return Some(written);
    }
    let refuse = |invalid: bezoar::Invalid| {
        let remedy = "name another queue for dead letters";
        reader.refuse(section, "dead_letter", InvalidValue::new(invalid.problem, remedy));
    };
    QueueName::new(format!("{queue}-dead")).map_err(refuse).ok()
}
