//! States and kinds: one name each, in JSON and in text.

/// Defines an enum whose variants have a name in JSON, and prints the name with spaces. `Unknown` is for a name that this
/// version does not know, and is not in the schema unless it is listed after `also`.
macro_rules! named {
    (
        $(#[$about:meta])* $name:ident {
            $($(#[doc = $doc:literal])* $variant:ident = $text:literal),* $(,)?
        } $(also $extra:literal)?
    ) => {
        $(#[$about])*
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize,
        )]
        pub enum $name {
            $($(#[doc = $doc])* #[serde(rename = $text)] $variant,)*
            /// Unknown to this version.
            #[default]
            #[serde(other, rename = "unknown")]
            Unknown,
        }

        impl $name {
            /// Its name in JSON.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                    Self::Unknown => "unknown",
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(&self.as_str().replace('_', " "))
            }
        }

        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
                utoipa::openapi::schema::ObjectBuilder::new()
                    .schema_type(utoipa::openapi::schema::Type::String)
                    .enum_values(Some([$($text,)* $($extra,)?]))
                    .into()
            }
        }

        impl utoipa::ToSchema for $name {}
    };
}

pub(super) use named;

named! {
    /// The kind of a failure.
    FailureKind {
        /// It may succeed later.
        Transient = "transient",
        /// It will not succeed.
        Permanent = "permanent",
        /// Something that is needed was not found.
        NotFound = "not_found",
        /// Access was denied.
        Unauthorized = "unauthorized",
        /// Another service failed.
        ExternalService = "external_service",
        /// A database failed.
        Database = "database",
        /// An AI service failed.
        AiService = "ai_service",
    } also "unknown"
}

impl From<bezoar::FailureKind> for FailureKind {
    fn from(kind: bezoar::FailureKind) -> Self {
        use bezoar::FailureKind as Kind;
        match kind {
            Kind::Transient => Self::Transient,
            Kind::Permanent => Self::Permanent,
            Kind::NotFound => Self::NotFound,
            Kind::Unauthorized => Self::Unauthorized,
            Kind::ExternalService => Self::ExternalService,
            Kind::Database => Self::Database,
            Kind::AiService => Self::AiService,
            _ => Self::Unknown,
        }
    }
}
