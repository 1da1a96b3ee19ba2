//! Which settings a worker refuses, on its own and on a transport.

use std::{num::NonZeroU32, ops::RangeInclusive, time::Duration};

use bezoar_core::{Capabilities, Invalid};

use super::Worker;
use crate::{RunError, RunErrorKind};

impl Worker {
    /// Checks that every setting is within its range. Running a worker checks this first; nothing is
    /// clamped.
    ///
    /// # Errors
    ///
    /// [`RunErrorKind::InvalidSettings`] with every setting that is out of range.
    pub fn check(&self) -> Result<(), RunError> {
        if self.problems.is_empty() {
            return Ok(());
        }
        let (queue, problems) = (self.queue.clone(), self.problems.clone());
        Err(RunError::new(RunErrorKind::InvalidSettings { queue, problems }))
    }

    /// Checks that a transport with these capabilities supports the settings of this worker: its lease, and
    /// the longest waits of its policies. Running a worker checks this first: a message is never delivered
    /// early because a transport cannot wait that long.
    ///
    /// # Errors
    ///
    /// [`RunErrorKind::InvalidSettings`] with every setting that the transport does not support.
    pub fn check_on(&self, capabilities: &Capabilities) -> Result<(), RunError> {
        self.check()?;
        let problems: Vec<_> = [
            capabilities.check_lease(self.subscribe.lease),
            capabilities.check_delay("longest delay of the retry policy", self.largest_delay()),
            capabilities
                .check_delay("longest wait of the uncounted policy", self.uncounted.longest),
        ]
        .into_iter()
        .filter_map(Result::err)
        .collect();
        if problems.is_empty() {
            return Ok(());
        }
        let queue = self.queue.clone();
        Err(RunError::new(RunErrorKind::InvalidSettings { queue, problems }))
    }

    /// The number, if it is within its range; otherwise the problem is stored for
    /// [`check`](Self::check).
    pub(super) fn require(
        &mut self,
        field: &'static str,
        range: RangeInclusive<u32>,
        given: u32,
    ) -> NonZeroU32 {
        if !range.contains(&given) {
            let problem = match (range.start(), range.end()) {
                (least, &u32::MAX) => format!("is {given}, at least {least} is required"),
                (least, most) => format!("is {given}, {least} to {most} are accepted"),
            };
            self.problems.push(Invalid::new(field, problem));
        }
        NonZeroU32::new(given).unwrap_or(NonZeroU32::MIN) // 0 is either refused or not used as a `NonZeroU32`
    }

    pub(super) fn require_duration(
        &mut self,
        field: &'static str,
        range: RangeInclusive<Duration>,
        given: Duration,
    ) {
        if !range.contains(&given) {
            let (least, most) = range.into_inner();
            let most = if most == Duration::MAX {
                String::new()
            } else {
                format!(" and at most {most:?}")
            };
            let problem = format!("is {given:?}, at least {least:?}{most} is required");
            self.problems.push(Invalid::new(field, problem));
        }
    }
}
