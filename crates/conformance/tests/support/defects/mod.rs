//! The defects, by what they break.

mod cancelling;
mod counting;
mod feeding;
mod leasing;
mod messages;
mod operating;
mod ordering;
mod replaying;
mod sending;
mod settling;
mod timing;

use bezoar_core::{DeadLetter, Delivery, ErrorKind, Message, Settlement, TransportError};

use super::{
    Control,
    broken::{Acceptances, Defect, Opened, Outcomes, Settlements, Store},
    small,
    twist::Twist,
};

pub(crate) fn controls() -> Vec<Control> {
    let all = [
        sending::controls(),
        messages::controls(),
        timing::controls(),
        leasing::controls(),
        settling::controls(),
        counting::controls(),
        replaying::controls(),
        feeding::controls(),
        ordering::controls(),
        operating::controls(),
        cancelling::controls(),
        small::controls(),
    ];
    all.into_iter().flatten().collect()
}

/// A defect that changes messages when they are sent.
fn sent(change: impl Fn(&mut Message) + Send + Sync + 'static) -> Twist {
    Twist { sent: Box::new(move |outgoing| change(&mut outgoing.message)), ..Twist::default() }
}

/// A defect that changes what is received.
fn received(change: impl Fn(&mut Delivery) + Send + Sync + 'static) -> Twist {
    Twist { received: Box::new(change), ..Twist::default() }
}

/// A defect that applies another settlement.
fn settled(change: impl Fn(&mut Settlement) + Send + Sync + 'static) -> Twist {
    Twist { settled: Box::new(change), ..Twist::default() }
}

/// A defect that changes dead letters.
fn dead(change: impl Fn(&mut DeadLetter) + Send + Sync + 'static) -> Twist {
    Twist { dead: Box::new(change), ..Twist::default() }
}

fn error(kind: ErrorKind) -> TransportError {
    TransportError::new(kind, "memory", "broken")
}
