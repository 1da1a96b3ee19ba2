//! How a handler's parameters come out of a message.

use std::{fmt, sync::Arc};

use bezoar_core::{
    Body, Code, CorrelationId, Failure, Headers, Ledger, Message, MessageId, MessageType, QueueName,
};
use serde::de::DeserializeOwned;

use crate::Context;

/// Something that a handler can take as a parameter. A tuple of such is one itself.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a parameter of a handler",
    label = "not something that comes out of a message",
    note = "use `Json<T>` for the body, `State<T>` for what the router holds, `Arc<Message>` for all of it, \
            or implement `FromMessage`"
)]
pub trait FromMessage<S>: Sized {
    /// Takes it out of the message or the router's state.
    ///
    /// # Errors
    ///
    /// A failure is the handler's: the message is retried or set aside by its kind.
    fn from_message(context: &Context, state: &S) -> Result<Self, Failure>;
}

/// The body, read as JSON. One that cannot be read is a permanent failure.
///
/// Its `Debug` does not show the value, which may hold personal data.
#[derive(Clone, Copy, Default)]
pub struct Json<T>(pub T);

impl<T> fmt::Debug for Json<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Json([hidden])")
    }
}

impl<T: DeserializeOwned, S> FromMessage<S> for Json<T> {
    fn from_message(context: &Context, _: &S) -> Result<Self, Failure> {
        serde_json::from_slice(context.message.body.reveal())
            .map(Self)
            .map_err(|error| Failure::permanent(error).with_code(Code::UNDECODABLE))
    }
}

/// A part of what the router holds: all of it, or what [`FromRef`] makes of it.
#[derive(Debug, Clone, Copy, Default)]
pub struct State<T>(pub T);

impl<S, T: FromRef<S>> FromMessage<S> for State<T> {
    fn from_message(_: &Context, state: &S) -> Result<Self, Failure> {
        Ok(Self(T::from_ref(state)))
    }
}

/// How a part is had from the whole of a router's state.
#[diagnostic::on_unimplemented(
    message = "the router's state `{S}` holds no `{Self}`",
    label = "a handler takes `State<{Self}>`",
    note = "give the router its state with `Router::with_state(…)`, before `.on(…)`; for a part of a larger \
            state implement `FromRef<{S}>`"
)]
pub trait FromRef<S> {
    /// The part.
    fn from_ref(state: &S) -> Self;
}

impl<T: Clone> FromRef<T> for T {
    fn from_ref(state: &T) -> Self {
        state.clone()
    }
}

/// Which attempt this is, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct AttemptNumber(pub u32);

impl<S> FromMessage<S> for AttemptNumber {
    fn from_message(context: &Context, _: &S) -> Result<Self, Failure> {
        Ok(Self(context.attempt))
    }
}

macro_rules! tuple {
    ($($parameter:ident),*) => {
        impl<S, $($parameter: FromMessage<S>,)*> FromMessage<S> for ($($parameter,)*) {
            #[allow(unused_variables, reason = "nothing comes out of a message for no parameters")]
            fn from_message(context: &Context, state: &S) -> Result<Self, Failure> {
                Ok(($($parameter::from_message(context, state)?,)*))
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
        $(impl<S> FromMessage<S> for $part {
            fn from_message($context: &Context, _: &S) -> Result<Self, Failure> {
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
