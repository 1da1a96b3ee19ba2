//! Why a handler failed.

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
    /// Something was not found, and may not exist yet. Retried.
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

    /// The name of the kind.
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
/// It has 1 to 64 letters, digits and `. _ - : /`, so that a sentence with somebody's name in it is
/// not a valid code.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Code(Cow<'static, str>);

impl Code {
    /// The code of a failure without a code of its own.
    pub const UNKNOWN: Self = Self::from_static("unknown");
    /// The handler timed out.
    pub const TIMEOUT: Self = Self::from_static("timeout");
    /// The handler panicked.
    pub const PANIC: Self = Self::from_static("panic");
    /// The body is not what the handler expects.
    pub const UNDECODABLE: Self = Self::from_static("undecodable");
    /// There is no handler for the message's type.
    pub const NO_HANDLER: Self = Self::from_static("no-handler");

    /// The handler snoozed the message.
    pub const SNOOZED: Self = Self::from_static("snoozed");
    /// The handler snoozed the message for longer than is allowed.
    pub const SNOOZE_LIMIT: Self = Self::from_static("snooze-limit");

    /// A code that is known at compile time.
    ///
    /// # Panics
    ///
    /// If the text is not a valid code. In a constant this is a compile error.
    pub const fn from_static(text: &'static str) -> Self {
        assert!(is_code(text), "a code is 1 to 64 of letters, digits and . _ - : /");
        Self(Cow::Borrowed(text))
    }

    /// A code that is known only at run time.
    ///
    /// # Errors
    ///
    /// [`Invalid`] if it is empty, too long, or not a single word.
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

/// Why a handler failed.
///
/// `?` on any error or plain text creates a failure of kind *unknown*, which is retried; [`Failure::permanent`] is not
/// retried. Everything that is `Into<Box<dyn Error + Send + Sync>>` counts as an error here: also `String`, `&'static
/// str`, that box itself and `anyhow::Error`. `Failure` does not implement `Error`, so that `?` works on all of them;
/// `anyhow::Error` does the same. [`FailureError`] implements it.
///
/// For the same reason no other crate can write `impl From<MyError> for Failure`. To give a typed error a kind, add a
/// rule with `Router::classify`: the failure keeps the original error, and the [`Classifier`](crate::Classifier)
/// recognizes it by its type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What went wrong; it decides whether the message is retried.
    pub kind: FailureKind,
    /// A short code that is safe to log.
    pub code: Code,
    /// The error's text. It may contain personal data.
    pub detail: Detail,
    /// The minimum wait before the next attempt, if the failed service named one.
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

    /// A failure of `kind` with this detail, for cases without an error value.
    pub fn with_detail(kind: FailureKind, detail: Detail) -> Self {
        let (code, retry_after, source) = (Code::UNKNOWN, None, Source(None));
        Self { kind, code, detail, retry_after, source }
    }

    /// A failure that will never succeed and is not retried.
    pub fn permanent(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::new(FailureKind::Permanent, error)
    }

    /// A failure from a temporary condition, which is retried.
    pub fn transient(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::new(FailureKind::Transient, error)
    }

    /// Sets the code by which causes are grouped. It must be safe to show.
    pub fn with_code(mut self, code: Code) -> Self {
        self.code = code;
        self
    }

    /// Sets the minimum wait before the next attempt.
    pub fn with_retry_after(mut self, after: Duration) -> Self {
        self.retry_after = Some(after);
        self
    }

    /// The original error, its source, the source of that, and so on. Their texts may contain personal data.
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

/// The standard conversion of an `anyhow::Error` hides the type of the wrapped error, which classification
/// needs.
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
    .expect("the error is taken only once")
}

/// The original error of a failure. It is neither compared nor shown, because its text may contain personal
/// data.
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

/// A [`Failure`] that implements `Error`, so that any `tower` layer can pass it on.
///
/// `Display` shows kind and code, never the detail.
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
    fn texts_and_boxed_errors_convert_like_errors() {
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
