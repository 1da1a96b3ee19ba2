//! Which bindings are missing (pure).

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use bezoar_core::{Finding, Severity};

use crate::{
    check::{binding_routes::ExchangeBindings, findings::finding},
    topology::Binding,
};

/// The bindings that exist, by the exchange that they come from.
pub(crate) type SeenBindings = HashMap<String, Arc<ExchangeBindings>>;

/// The missing bindings of each queue.
pub(crate) struct MissingBindings<'a>(BTreeMap<&'a str, Vec<&'a Binding>>);

impl<'a> MissingBindings<'a> {
    /// Compares the wanted bindings with those that exist.
    pub(crate) fn of(wanted: &'a [Binding], there: &SeenBindings) -> Self {
        let is_there =
            |it: &Binding| there.get(&it.from).is_some_and(|from| from.has(&it.to, &it.key));
        let mut missing: BTreeMap<&str, Vec<&Binding>> = BTreeMap::new();
        for binding in wanted.iter().filter(|it| !is_there(it)) {
            missing.entry(&binding.to).or_default().push(binding);
        }
        Self(missing)
    }

    /// One finding for each queue.
    pub(crate) fn findings(&self) -> Vec<Finding> {
        self.0.iter().map(|(queue, lacking)| missing_bindings(queue, lacking)).collect()
    }
}

fn missing_bindings(queue: &str, lacking: &[&Binding]) -> Finding {
    let lack = match lacking {
        [Binding { from, key, .. }] => {
            format!("exchange {from:?} is not bound to queue {queue:?} with routing key {key:?}")
        }
        all => format!("{} exchanges are not bound to queue {queue:?}", all.len()),
    };
    let problem = format!("{lack}: messages get stuck or lost");
    finding(Severity::Error, problem, "provision the queue")
}
