//! Plain async functions as handlers.

use std::future::Future;

use bezoar_core::Failure;

use crate::{Context, FromMessage};

/// An async function whose parameters come out of a message.
///
/// ```
/// use bezoar_runtime::{Json, Router, State};
///
/// async fn store(Json(value): Json<f64>, State(unit): State<&'static str>) -> Result<(), std::io::Error> {
///     println!("{value} {unit}");
///     Ok(())
/// }
///
/// let router = Router::with_state("g/dl").on("lab.result", store);
/// ```
///
/// What is no handler does not compile:
///
/// ```compile_fail
/// async fn takes_a_thread(_: std::thread::Thread) {}
/// let router = bezoar_runtime::Router::new().on("lab.result", takes_a_thread);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a handler",
    note = "a handler is an `async fn` with up to 8 parameters that come out of a message (`Json<T>`, \
            `State<T>`, `AttemptNumber`, …), which returns `()` or `Result<(), E>`; `E` is `Failure` \
            or any error that is `Send + Sync + 'static`",
    note = "its future must be `Send`: nothing that is not may be held across an `.await`"
)]
pub trait Handler<Parameters, S>: Clone + Send + Sync + 'static {
    /// Runs it.
    fn call(self, context: Context, state: S) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// What a handler may return.
#[diagnostic::on_unimplemented(
    message = "a handler cannot return `{Self}`",
    note = "return `()` or `Result<(), E>`, where `E` is `Failure` or any error that is `Send + Sync + 'static`"
)]
pub trait Outcome {
    /// As a result.
    ///
    /// # Errors
    ///
    /// The failure, if it was one.
    fn into_result(self) -> Result<(), Failure>;
}

impl Outcome for () {
    fn into_result(self) -> Result<(), Failure> {
        Ok(())
    }
}

impl<E: Into<Failure>> Outcome for Result<(), E> {
    fn into_result(self) -> Result<(), Failure> {
        self.map_err(Into::into)
    }
}

macro_rules! handler {
    ($($parameter:ident),*) => {
        impl<F, Fut, R, S, $($parameter,)*> Handler<($($parameter,)*), S> for F
        where
            F: FnOnce($($parameter,)*) -> Fut + Clone + Send + Sync + 'static,
            Fut: Future<Output = R> + Send,
            R: Outcome,
            S: Send + Sync + 'static,
            $($parameter: FromMessage<S> + Send,)*
        {
            #[allow(non_snake_case, unused_variables, reason = "named after their types, if there are any")]
            async fn call(self, context: Context, state: S) -> Result<(), Failure> {
                $(let $parameter = $parameter::from_message(&context, &state)?;)*
                self($($parameter,)*).await.into_result()
            }
        }
    };
}

handler!();
handler!(A);
handler!(A, B);
handler!(A, B, C);
handler!(A, B, C, D);
handler!(A, B, C, D, E);
handler!(A, B, C, D, E, G);
handler!(A, B, C, D, E, G, H);
handler!(A, B, C, D, E, G, H, I);
