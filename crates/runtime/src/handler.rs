//! Plain async functions as handlers, and what they may return.

use std::future::Future;

use bezoar_core::Failure;

/// An async function whose parameters are taken from a message.
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
/// The bounds on parameters, result and `Send` are separate bounds of [`Router::on`](crate::Router::on), so that
/// the compiler can name the one that is violated.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a handler",
    label = "not an `async fn` with up to 8 parameters",
    note = "a handler is an `async fn` with up to 8 parameters that are taken from a message (`Json<T>`, \
            `State<T>`, `AttemptNumber`, …); a tuple of such parameters counts as one",
    note = "if it is a plain `fn`, make it an `async fn`"
)]
pub trait Handler<P>: Clone + Send + Sync + 'static {
    /// The future that a call returns.
    type Future: Future<Output = Self::Output>;
    /// The type that the handler returns.
    type Output;

    /// Calls the handler.
    fn call(self, parameters: P) -> Self::Future;
}

/// What a handler may return.
#[diagnostic::on_unimplemented(
    message = "a handler cannot return `{Self}`",
    label = "returns `{Self}`",
    note = "return `()` or `Result<(), E>`, where `E` is `Failure`, a `String`, or any error that is \
            `Send + Sync + 'static`: `Box<dyn Error + Send + Sync>`, not `Box<dyn Error>`"
)]
pub trait HandlerResult {
    /// Converts the returned value into a result.
    ///
    /// # Errors
    ///
    /// The failure, if the handler failed.
    fn into_result(self) -> Result<(), Failure>;
}

impl HandlerResult for () {
    fn into_result(self) -> Result<(), Failure> {
        Ok(())
    }
}

#[diagnostic::do_not_recommend] // so that the message above appears, not one about `Into`
impl<E: Into<Failure>> HandlerResult for Result<(), E> {
    fn into_result(self) -> Result<(), Failure> {
        self.map_err(Into::into)
    }
}

macro_rules! handler {
    ($($parameter:ident),*) => {
        impl<F, Fut, $($parameter,)*> Handler<($($parameter,)*)> for F
        where
            F: FnOnce($($parameter,)*) -> Fut + Clone + Send + Sync + 'static,
            Fut: Future,
        {
            type Future = Fut;
            type Output = Fut::Output;

            #[allow(non_snake_case, reason = "named after their types")]
            fn call(self, ($($parameter,)*): ($($parameter,)*)) -> Fut {
                self($($parameter,)*)
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
