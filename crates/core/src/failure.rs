//! Why a handler did not succeed.

use std::{
    borrow::Cow, error::Error, fmt, iter::successors, str::FromStr, sync::Arc, time::Duration,
};

use crate::{Detail, Invalid};

/// What went wrong; it decides whether the message is retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum FailureKind {
    /// Not specified. Retried.
    #[default]
    Unknown,
    /// A temporary condition. Retried.
    Transient,
    /// It will never succeed. Not retried.
    Permanent,
    /// Something is missing, perhaps not there yet. Retried.
    NotFound,
    /// Not allowed. Not retried.
    Unauthorized,
    /// A service that was called failed. Retried.
    ExternalService,
    /// A database failed. Retried.
    Database,
    /// A model service failed. Retried.
    AiService,
}

impl FailureKind {
    /// Every kind.
    pub const ALL: &[Self] = &[
        Self::Unknown,
        Self::Transient,
        Self::Permanent,
        Self::NotFound,
        Self::Unauthorized,
        Self::ExternalService,
        Self::Database,
        Self::AiService,
    ];

    /// Whether the message is retried.
    pub const fn is_retryable(self) -> bool {
        !matches!(self, Self::Permanent | Self::Unauthorized)
    }

    /// The kind as people write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Transient => "transient",
            Self::Permanent => "permanent",
            Self::NotFound => "not found",
            Self::Unauthorized => "unauthorized",
            Self::ExternalService => "external service",
            Self::Database => "database",
            Self::AiService => "AI service",
        }
    }
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for FailureKind {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let found = Self::ALL.iter().find(|kind| kind.as_str() == text);
        found.copied().ok_or_else(|| Invalid::new("failure kind", "is not a known kind"))
    }
}

/// A short word for what happened, chosen by a developer and safe to show anywhere.
///
/// From 1 to 64 of letters, digits and `. _ - : /`, so that no sentence with somebody's name in it
/// passes for one.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Code(Cow<'static, str>);

impl Code {
    /// The code of a failure that was not given one.
    pub const UNKNOWN: Self = Self::from_static("unknown");
    /// The handler took longer than it may.
    pub const TIMEOUT: Self = Self::from_static("timeout");
    /// The handler panicked.
    pub const PANIC: Self = Self::from_static("panic");
    /// The body is not what the handler expects.
    pub const UNDECODABLE: Self = Self::from_static("undecodable");
    /// There is no handler for the message's type.
    pub const NO_HANDLER: Self = Self::from_static("no-handler");

    /// The handler asked for the message again later.
    pub const SNOOZED: Self = Self::from_static("snoozed");
    /// The handler asked for the message again later, for longer than it may.
    pub const SNOOZE_LIMIT: Self = Self::from_static("snooze-limit");

    /// A code known when the program is written.
    ///
    /// # Panics
    ///
    /// If it is not a code; in a constant that is a compile error.
    pub const fn from_static(text: &'static str) -> Self {
        assert!(is_code(text), "a code is 1 to 64 of letters, digits and . _ - : /");
        Self(Cow::Borrowed(text))
    }

    /// A code known only when the program runs.
    ///
    /// # Errors
    ///
    /// [`Invalid`] if it is empty, too long, or more than a word.
    pub fn new(text: impl Into<String>) -> Result<Self, Invalid> {
        let text = text.into();
        if is_code(&text) {
            return Ok(Self(Cow::Owned(text)));
        }
        Err(Invalid::new("code", "is not 1 to 64 of letters, digits and . _ - : /"))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

const fn is_code(text: &str) -> bool {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if !bytes[at].is_ascii_alphanumeric()
            && !matches!(bytes[at], b'.' | b'_' | b'-' | b':' | b'/')
        {
            return false;
        }
        at += 1;
    }
    !bytes.is_empty() && bytes.len() <= 64
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// Why a handler did not succeed.
///
/// `?` on any error, or on a plain text, makes one of kind *unknown*, which is retried;
/// [`Failure::permanent`] is not retried. What is `Into<Box<dyn Error + Send + Sync>>` is an error here: so are
/// `String`, `&'static str`, that box itself and `anyhow::Error`. Like `anyhow::Error` it is not an `Error` itself, which is
/// what lets `?` work on all of them; [`FailureError`] is.
///
/// For the same reason no other crate can write `impl From<MyError> for Failure`. A typed error decides its kind by a
/// rule of the router instead, `Router::classify`: the failure keeps the error that it was made of, and the
/// [`Classifier`](crate::Classifier) recognizes it by its type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What went wrong; it decides whether the message is retried.
    pub kind: FailureKind,
    /// A safe word for it.
    pub code: Code,
    /// What the error said; it may contain personal data.
    pub detail: Detail,
    /// How long to wait at least, where the other side said so.
    pub retry_after: Option<Duration>,
    source: Source,
}

impl Failure {
    /// A failure of `kind`, with the texts of `error` and all its sources as the detail.
    pub fn new(kind: FailureKind, error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        let error = error.into();
        let failure = Self::with_detail(kind, Detail::truncated(chain(&*error)));
        Self { source: Source(Some(Arc::from(error))), ..failure }
    }

    /// A failure of `kind` with this detail, where there is no error that says it.
    pub fn with_detail(kind: FailureKind, detail: Detail) -> Self {
        let (code, retry_after, source) = (Code::UNKNOWN, None, Source(None));
        Self { kind, code, detail, retry_after, source }
    }

    /// It will never succeed: not retried.
    pub fn permanent(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::new(FailureKind::Permanent, error)
    }

    /// It is a temporary condition: retried.
    pub fn transient(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::new(FailureKind::Transient, error)
    }

    /// The same failure with a safe code, by which causes are grouped.
    pub fn with_code(mut self, code: Code) -> Self {
        self.code = code;
        self
    }

    /// The same failure with the least time to wait.
    pub fn with_retry_after(mut self, after: Duration) -> Self {
        self.retry_after = Some(after);
        self
    }

    /// The error that it was made of, then that one's source, and so on. Their texts may contain personal data.
    pub fn errors(&self) -> impl Iterator<Item = &(dyn Error + 'static)> {
        let first = self.source.0.as_deref().map(|error| error as &(dyn Error + 'static));
        successors(first, |&error| error.source())
    }
}

impl<E: Into<Box<dyn Error + Send + Sync>> + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::new(FailureKind::Unknown, boxed(error))
    }
}

#[cfg(not(feature = "anyhow"))]
fn boxed(error: impl Into<Box<dyn Error + Send + Sync>>) -> Box<dyn Error + Send + Sync> {
    error.into()
}

/// The usual conversion of an `anyhow::Error` hides the type of the error in it, which is needed to classify it.
#[cfg(feature = "anyhow")]
fn boxed<E: Into<Box<dyn Error + Send + Sync>> + 'static>(
    error: E,
) -> Box<dyn Error + Send + Sync> {
    let mut error = Some(error);
    match (&mut error as &mut dyn std::any::Any).downcast_mut::<Option<anyhow::Error>>() {
        Some(error) => {
            error.take().map(anyhow::Error::reallocate_into_boxed_dyn_error_without_backtrace)
        }
        None => error.map(Into::into),
    }
    .expect("it is taken only once")
}

/// The error that a failure was made of. It is not compared and not shown: its text may contain personal data.
#[derive(Clone)]
struct Source(Option<Arc<dyn Error + Send + Sync>>);

impl PartialEq for Source {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Source {}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "[hidden]" } else { "none" })
    }
}

/// A [`Failure`] as an error, so that any `tower` layer can pass it on.
///
/// It shows kind and code, never the detail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailureError(pub Failure);

impl fmt::Display for FailureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.0.kind, self.0.code)
    }
}

impl Error for FailureError {}

fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    for source in successors(error.source(), |&error| error.source()) {
        text.push_str(": ");
        text.push_str(&source.to_string());
        if text.len() > crate::DETAIL_LIMIT_BYTES {
            break;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permanent_and_unauthorized_are_not_retried_and_the_others_are() {
        let stopped: Vec<_> =
            FailureKind::ALL.iter().copied().filter(|kind| !kind.is_retryable()).collect();
        assert_eq!(stopped, [FailureKind::Permanent, FailureKind::Unauthorized]);
    }

    #[test]
    fn every_kind_is_read_back_from_its_text() {
        for &kind in FailureKind::ALL {
            assert_eq!(kind.as_str().parse::<FailureKind>().unwrap(), kind);
        }
        assert!("Permanent!".parse::<FailureKind>().is_err());
    }

    #[test]
    fn a_question_mark_makes_a_retryable_failure_with_the_whole_chain() {
        fn handler() -> Result<(), Failure> {
            "x".parse::<u8>()?;
            Ok(())
        }
        let failure = handler().unwrap_err();
        assert_eq!(failure.kind, FailureKind::Unknown);
        assert_eq!(failure.detail.reveal(), "invalid digit found in string");
        assert!(!format!("{failure:?}").contains("digit"));
    }

    #[test]
    fn texts_and_boxed_errors_are_taken_as_well_as_errors() {
        #[derive(Debug, thiserror::Error)]
        #[error("not stored")]
        struct NotStored(#[source] std::num::ParseIntError);

        fn check(failure: impl Into<Failure>, detail: &str) {
            let failure = failure.into();
            assert_eq!(
                (failure.kind, failure.detail.reveal().as_str()),
                (FailureKind::Unknown, detail)
            );
        }
        let not_stored = || NotStored("x".parse::<u8>().unwrap_err());
        let chain = "not stored: invalid digit found in string";
        check(not_stored(), chain);
        check(Box::<dyn Error + Send + Sync>::from(not_stored()), chain);
        check("a text", "a text");
        check(String::from("a text"), "a text");
        check(Failure::new(FailureKind::Unknown, "itself"), "itself");
    }

    #[test]
    fn a_code_is_a_word_and_never_a_sentence() {
        assert!(Code::new("http.503").is_ok());
        for bad in ["", "two words", "Müller", &"x".repeat(65)] {
            assert!(Code::new(bad).is_err(), "{bad}");
        }
    }
}
