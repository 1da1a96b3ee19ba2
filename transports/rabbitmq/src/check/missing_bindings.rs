//! Which bindings are missing (pure).

use std::collections::{BTreeMap, HashSet};

use bezoar_core::{Finding, Severity};
use serde_json::Value;

use crate::{check::findings::finding, topology::Binding};

/// The missing bindings of each queue.
pub(crate) struct MissingBindings<'a>(BTreeMap<&'a str, Vec<&'a Binding>>);

impl<'a> MissingBindings<'a> {
    /// Compares the wanted bindings with those that the management API lists.
    pub(crate) fn of(wanted: &'a [Binding], there: &[Value]) -> Self {
        let text = |it: &'_ Value, name: &str| it[name].as_str().unwrap_or_default().to_owned();
        let there: HashSet<_> = there
            .iter()
            .filter(|it| it["destination_type"] == "queue")
            .map(|it| (text(it, "source"), text(it, "destination"), text(it, "routing_key")))
            .collect();
        let mut missing: BTreeMap<&str, Vec<&Binding>> = BTreeMap::new();
        for binding in wanted {
            let Binding { from, to, key } = binding;
            if !there.contains(&(from.clone(), to.clone(), key.clone())) {
                missing.entry(to).or_default().push(binding);
            }
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
