//! Values that layers attach to a message for its handler.

use std::{
    any::{Any, TypeId},
    fmt,
    sync::Arc,
};

use bezoar_core::{Code, Failure};

use crate::{Context, FromMessage};

/// Values by type: a layer inserts them into a [`Context`], a handler takes them as [`Extension`].
///
/// They last for one try. An empty set costs nothing; clones share the values.
#[derive(Clone, Default)]
pub struct Extensions {
    values: Vec<(TypeId, Arc<dyn Any + Send + Sync>)>,
}

impl Extensions {
    /// Adds a value; replaces an earlier one of the same type.
    pub fn insert<T: Send + Sync + 'static>(&mut self, value: T) {
        let (key, value) = (TypeId::of::<T>(), Arc::new(value));
        match self.values.iter_mut().find(|(at, _)| *at == key) {
            Some((_, earlier)) => *earlier = value,
            None => self.values.push((key, value)),
        }
    }

    /// The value of this type, if there is one.
    pub fn get<T: Send + Sync + 'static>(&self) -> Option<&T> {
        let (_, value) = self.values.iter().find(|(key, _)| *key == TypeId::of::<T>())?;
        value.downcast_ref()
    }
}

impl fmt::Debug for Extensions {
    /// Shows only the number of values, because they may be personal data.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Extensions").field("count", &self.values.len()).finish()
    }
}

/// A value that a layer inserted into [`Context::extensions`](crate::Context), as a parameter of a handler.
///
/// If there is none, the attempt fails with the code `no-extension`: the layer is missing from the
/// worker. Use `Option<Extension<T>>` for a value that may be absent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Extension<T>(pub T);

/// The code of a failure caused by a missing [`Extension`].
const NO_EXTENSION: Code = Code::from_static("no-extension");

impl<S: Sync, T: Clone + Send + Sync + 'static> FromMessage<S> for Extension<T> {
    async fn from_message(context: &Context, _: &S) -> Result<Self, Failure> {
        let missing = || {
            let name = std::any::type_name::<T>();
            Failure::from(format!("no layer inserted a {name}")).with_code(NO_EXTENSION)
        };
        context.extensions.get().cloned().map(Self).ok_or_else(missing)
    }
}

impl<S: Sync, T: Clone + Send + Sync + 'static> FromMessage<S> for Option<Extension<T>> {
    async fn from_message(context: &Context, _: &S) -> Result<Self, Failure> {
        Ok(context.extensions.get().cloned().map(Extension))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_found_by_its_type_and_replaced_by_a_later_one() {
        let mut extensions = Extensions::default();
        assert_eq!(extensions.get::<u8>(), None);
        extensions.insert(7_u8);
        extensions.insert("CANARY");
        extensions.insert(8_u8);
        assert_eq!((extensions.get::<u8>(), extensions.get::<&str>()), (Some(&8), Some(&"CANARY")));
        assert_eq!(format!("{extensions:?}"), "Extensions { count: 2 }");
    }
}
