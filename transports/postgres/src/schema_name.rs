//! The name of a schema, quoted for SQL.

/// The name of a schema, quoted for SQL.
#[derive(Debug, Clone)]
pub(crate) struct SchemaName {
    name: String,
    quoted: String,
}

impl SchemaName {
    pub(crate) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), quoted: format!("\"{}\"", name.replace('"', "\"\"")) }
    }

    /// Fills in the name: for `{schema}` as an identifier, for `{schema_text}` as the same inside a text.
    pub(crate) fn fill(&self, sql: &str) -> String {
        sql.replace("{schema}", &self.quoted)
            .replace("{schema_text}", &self.quoted.replace('\'', "''"))
    }

    /// The name as it is.
    pub(crate) fn as_str(&self) -> &str {
        &self.name
    }

    /// The name as an identifier.
    pub(crate) fn quoted(&self) -> &str {
        &self.quoted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_as_identifiers_and_as_text() {
        let name = SchemaName::new(r#"L'a"b"#);
        let filled = name.fill("SELECT {schema}.x, nextval('{schema_text}.s')");
        assert_eq!(filled, r#"SELECT "L'a""b".x, nextval('"L''a""b".s')"#);
    }
}
