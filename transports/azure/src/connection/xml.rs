//! The body of a request that stores a text.

/// The text as XML. A carriage return is written as a reference, because parsers turn a plain one into a line feed, and
/// HL7 ends its segments with carriage returns.
pub(crate) fn message(text: &str) -> Vec<u8> {
    let mut xml = String::with_capacity(text.len() + 80);
    xml.push_str("<?xml version=\"1.0\" encoding=\"utf-8\"?><QueueMessage><MessageText>");
    let mut rest = text;
    while let Some(at) = rest.find(['&', '<', '>', '\r']) {
        let (plain, special) = rest.split_at(at);
        xml.push_str(plain);
        xml.push_str(match special.as_bytes()[0] {
            b'&' => "&amp;",
            b'<' => "&lt;",
            b'>' => "&gt;",
            _ => "&#xD;",
        });
        rest = &special[1..];
    }
    xml.push_str(rest);
    xml.push_str("</MessageText></QueueMessage>");
    xml.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_and_carriage_returns_are_references() {
        let xml = String::from_utf8(message("a<b>&\r\n\"é")).unwrap();
        let body = xml.split_once("<MessageText>").unwrap().1;
        assert_eq!(body, "a&lt;b&gt;&amp;&#xD;\n\"é</MessageText></QueueMessage>");
    }
}
