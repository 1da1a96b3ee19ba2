//! The names of what the processor reads in messages of other programs.

use crate::Invalid;

/// The names of JSON members in messages of other programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryFields {
    /// The retry count: a whole number. Default `RetryCount`.
    pub retry_count: String,
    /// The correlation id: a text. Default `CorrelationId`.
    pub correlation_id: String,
    /// The text to deliver, such as an HL7 message. By default the whole JSON is delivered. If this is set, a message of
    /// another program without such a member cannot be decoded.
    pub body: Option<String>,
}

impl Default for RetryFields {
    fn default() -> Self {
        Self {
            retry_count: "RetryCount".to_owned(),
            correlation_id: "CorrelationId".to_owned(),
            body: None,
        }
    }
}

impl RetryFields {
    /// Checks the names.
    ///
    /// # Errors
    ///
    /// [`Invalid`] if a name is empty, or if two are equal.
    pub fn check(&self) -> Result<(), Invalid> {
        let (count, id) = (self.retry_count.as_str(), self.correlation_id.as_str());
        let body = self.body.as_deref();
        let refused = |problem| Err(Invalid::new("retry_count_field", problem));
        if count.is_empty() || id.is_empty() || body == Some("") {
            return refused("and the others must not be empty");
        }
        if count == id || body == Some(count) || body == Some(id) {
            return refused("and the others must have different names");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_different_and_not_empty() {
        let check = |retry_count: &str, correlation_id: &str, body: Option<&str>| {
            let (retry_count, correlation_id) = (retry_count.to_owned(), correlation_id.to_owned());
            RetryFields { retry_count, correlation_id, body: body.map(ToOwned::to_owned) }.check()
        };
        assert_eq!(RetryFields::default().check(), Ok(()));
        assert_eq!(check("a", "b", Some("c")), Ok(()));
        for (count, id, body) in [
            ("", "b", None),
            ("a", "", None),
            ("a", "b", Some("")),
            ("a", "a", None),
            ("a", "b", Some("a")),
        ] {
            assert!(check(count, id, body).is_err(), "{count} {id} {body:?}");
        }
    }
}
