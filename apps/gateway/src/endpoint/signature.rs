//! Signs requests as specified by [Standard Webhooks](https://www.standardwebhooks.com).

use std::{fmt, str::FromStr};

use base64::{
    Engine,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use bezoar::Invalid;
use hmac::{Hmac, KeyInit, Mac};
use http::HeaderValue;
use sha2::Sha256;

const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A signing secret, which cannot be printed.
#[derive(Clone)]
pub struct SigningSecret(Hmac<Sha256>);

impl FromStr for SigningSecret {
    type Err = Invalid;

    /// `whsec_` and base64, the form of Standard Webhooks; any other text is used as bytes.
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let invalid = |problem| Invalid::new("signing secret", problem);
        let key = match text.strip_prefix("whsec_") {
            Some(encoded) => BASE64
                .decode(encoded)
                .map_err(|_| invalid("starts with whsec_, but the rest is not base64"))?,
            None => text.as_bytes().to_vec(),
        };
        if key.is_empty() {
            return Err(invalid("is empty"));
        }
        Ok(Self(Hmac::new_from_slice(&key).expect("any length is a key")))
    }
}

impl SigningSecret {
    fn sign(&self, id: &[u8], timestamp: &[u8], body: &[u8]) -> String {
        let mut mac = self.0.clone();
        for part in [id, b".", timestamp, b".", body] {
            mac.update(part);
        }
        format!("v1,{}", BASE64.encode(mac.finalize().into_bytes()))
    }
}

/// The `webhook-signature` header: one signature per secret, so that a secret can be replaced while receivers still use
/// the old one. `id` and `timestamp` are the values of the other two headers.
pub(super) fn signature(
    secrets: &[SigningSecret],
    id: &HeaderValue,
    timestamp: &HeaderValue,
    body: &[u8],
) -> HeaderValue {
    let signed = |secret: &SigningSecret| secret.sign(id.as_bytes(), timestamp.as_bytes(), body);
    let signatures: Vec<_> = secrets.iter().map(signed).collect();
    HeaderValue::try_from(signatures.join(" ")).expect("base64 is visible ASCII")
}

impl fmt::Debug for SigningSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(secret: &str, expected: &str) {
        let secret: SigningSecret = secret.parse().unwrap();
        let id = HeaderValue::from_static("msg_p5jXN8AQM9LWM0D4loKWxJek");
        let time = HeaderValue::from_static("1614265330");
        let header = signature(&[secret], &id, &time, br#"{"test": 2432232314}"#);
        assert_eq!(header.to_str().unwrap(), expected);
    }

    #[test]
    fn the_example_of_standard_webhooks_is_reproduced() {
        let expected = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
        check("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", expected);
    }

    #[test]
    fn secrets_are_validated_and_never_printed() {
        let secret: SigningSecret = "CANARY".parse().unwrap();
        assert_eq!(format!("{secret:?}"), "[hidden]");
        assert!("whsec_TWFu".parse::<SigningSecret>().is_ok());
        assert!("whsec_TWE".parse::<SigningSecret>().is_ok(), "without padding");
        for bad in ["", "whsec_", "whsec_CANARY!"] {
            let error = bad.parse::<SigningSecret>().unwrap_err().to_string();
            assert!(!error.contains("CANARY"), "{error}");
        }
    }

    #[test]
    fn several_secrets_make_several_signatures() {
        let secrets = ["a".parse().unwrap(), "b".parse().unwrap()];
        let (id, time) = (HeaderValue::from_static("m"), HeaderValue::from_static("1"));
        let both = signature(&secrets, &id, &time, b"x");
        let each = secrets.map(|secret| signature(&[secret], &id, &time, b"x"));
        let each = each.map(|one| one.to_str().unwrap().to_owned());
        assert_eq!(both.to_str().unwrap(), each.join(" "));
    }
}
