//! Messages whose type is known from the Rust type of their body.

use crate::Json;

/// A body that belongs to one type of message. Sender and router take the type from here.
///
/// ```
/// use bezoar_runtime::{Json, Router, TypedMessage};
///
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct LabResult {
///     value: f64,
/// }
///
/// impl TypedMessage for LabResult {
///     const TYPE: &'static str = "lab.result";
/// }
///
/// async fn store(Json(result): Json<LabResult>) {}
///
/// let router = Router::new().on_message(store); // handles `lab.result`
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say which type of message it is the body of",
    label = "not a `TypedMessage`",
    note = "write `impl TypedMessage for {Self} {{ const TYPE: &'static str = \"…\"; }}`, or name the type: \
            `router.on(\"…\", handler)`, `bezoar.send(queue, \"…\", &value)`"
)]
pub trait TypedMessage {
    /// The message's type: 1 to 255 bytes of printable text.
    const TYPE: &'static str;
}

/// The parameters of a handler for [`Router::on_message`](crate::Router::on_message): the first is `Json<T>`, where
/// `T` is a [`TypedMessage`].
#[diagnostic::on_unimplemented(
    message = "the handler does not say which type of message it handles",
    label = "its first parameter is not `Json<T>`, where `T: TypedMessage`",
    note = "make `Json<T>` the first parameter, or name the type: `.on(\"…\", handler)`"
)]
pub trait TypedParameters {
    /// The message's type.
    const TYPE: &'static str;
}

macro_rules! typed {
    ($($parameter:ident),*) => {
        impl<T: TypedMessage, $($parameter,)*> TypedParameters for (Json<T>, $($parameter,)*) {
            const TYPE: &'static str = T::TYPE;
        }
    };
}

typed!();
typed!(B);
typed!(B, C);
typed!(B, C, D);
typed!(B, C, D, E);
typed!(B, C, D, E, G);
typed!(B, C, D, E, G, H);
typed!(B, C, D, E, G, H, I);
