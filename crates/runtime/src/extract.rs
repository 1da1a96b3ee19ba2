//! Extractors: how a handler's parameters are taken from a message.

use std::{fmt, sync::Arc};

use bezoar_core::{
    Body, Code, CorrelationId, Failure, Headers, Ledger, Message, MessageId, MessageType, QueueName,
};
use serde::de::DeserializeOwned;

use crate::Context;

/// A type that a handler can take as a parameter. A tuple of extractors is an extractor too.
///
/// Implement it as an `async fn`, which may wait, for example for a lookup:
///
/// ```
/// use bezoar_core::Failure;
/// use bezoar_runtime::{Context, FromMessage};
///
/// struct Ward(String);
///
/// impl<S: Sync> FromMessage<S> for Ward {
///     async fn from_message(context: &Context, _: &S) -> Result<Self, Failure> {
///         let ward = context.message.headers.get("ward");
///         let ward = ward.ok_or_else(|| Failure::permanent("no ward"))?;
///         Ok(Self(ward.reveal().clone()))
///     }
/// }
/// ```
///
/// An extractor that does not wait costs no allocation and no wake-up. Waiting counts towards the worker's
/// timeout.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a parameter of a handler",
    label = "cannot be extracted from a message",
    note = "use `Json<T>` for the body, `State<T>` for the router's state, `Extension<T>` for what a layer inserted, \
            `Arc<Message>` for the whole message, or implement `FromMessage`"
)]
pub trait FromMessage<S>: Sized + Send {
    /// Extracts the value from the message or the router's state.
    ///
    /// # Errors
    ///
    /// A failure counts as the handler's own: its kind decides whether the message is retried or
    /// dead-lettered.
    fn from_message(
        context: &Context,
        state: &S,
    ) -> impl Future<Output = Result<Self, Failure>> + Send;
}

/// The body, parsed as JSON. A body that cannot be parsed is a permanent failure.
///
/// Its `Debug` hides the value, which may be personal data.
#[derive(Clone, Copy, Default)]
pub struct Json<T>(pub T);

impl<T> fmt::Debug for Json<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Json([hidden])")
    }
}

impl<T: DeserializeOwned + Send, S: Sync> FromMessage<S> for Json<T> {
    async fn from_message(context: &Context, _: &S) -> Result<Self, Failure> {
        serde_json::from_slice(context.message.body.reveal())
            .map(Self)
            .map_err(|error| Failure::permanent(error).with_code(Code::UNDECODABLE))
    }
}

/// The router's state, or the part of it that [`FromRef`] returns.
#[derive(Debug, Clone, Copy, Default)]
pub struct State<T>(pub T);

impl<S: Sync, T: FromRef<S> + Send> FromMessage<S> for State<T> {
    async fn from_message(_: &Context, state: &S) -> Result<Self, Failure> {
        Ok(Self(T::from_ref(state)))
    }
}

/// A part of a router's state.
#[diagnostic::on_unimplemented(
    message = "the router's state `{S}` holds no `{Self}`",
    label = "a handler takes `State<{Self}>`",
    note = "give the router its state with `Router::with_state(…)`, before `.on(…)`; for a part of a larger \
            state implement `FromRef<{S}>`"
)]
pub trait FromRef<S> {
    /// Returns the part of the state.
    fn from_ref(state: &S) -> Self;
}

impl<T: Clone> FromRef<T> for T {
    fn from_ref(state: &T) -> Self {
        state.clone()
    }
}

/// The number of the attempt, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct AttemptNumber(pub u32);

impl<S: Sync> FromMessage<S> for AttemptNumber {
    async fn from_message(context: &Context, _: &S) -> Result<Self, Failure> {
        Ok(Self(context.attempt))
    }
}

macro_rules! tuple {
    ($($parameter:ident),*) => {
        impl<S: Sync, $($parameter: FromMessage<S>,)*> FromMessage<S> for ($($parameter,)*) {
            #[allow(unused_variables, reason = "a handler without parameters takes nothing")]
            async fn from_message(context: &Context, state: &S) -> Result<Self, Failure> {
                Ok(($($parameter::from_message(context, state).await?,)*))
            }
        }
    };
}

tuple!();
tuple!(A);
tuple!(A, B);
tuple!(A, B, C);
tuple!(A, B, C, D);
tuple!(A, B, C, D, E);
tuple!(A, B, C, D, E, G);
tuple!(A, B, C, D, E, G, H);
tuple!(A, B, C, D, E, G, H, I);

macro_rules! parts {
    ($($part:ty => |$context:ident| $value:expr;)*) => {
        $(impl<S: Sync> FromMessage<S> for $part {
            async fn from_message($context: &Context, _: &S) -> Result<Self, Failure> {
                Ok($value)
            }
        })*
    };
}

parts! {
    Context => |context| context.clone();
    Arc<Message> => |context| context.message.clone();
    MessageId => |context| context.message.id.clone();
    MessageType => |context| context.message.message_type.clone();
    Option<CorrelationId> => |context| context.message.correlation_id.clone();
    Headers => |context| context.message.headers.clone();
    Body => |context| context.message.body.clone();
    Ledger => |context| context.message.ledger.clone();
    QueueName => |context| context.queue.clone();
}
