//! Connections that only read: a long look of one operator does not hold up the short ones of others.

use std::sync::{Mutex, PoisonError};

use bezoar_core::TransportError;
use rusqlite::Connection;

use crate::{Options, database};

/// How many looks go on at a time; more wait.
const READERS: usize = 3;

#[derive(Debug)]
pub(crate) struct Readers(Vec<Mutex<Connection>>);

impl Readers {
    pub(crate) fn open(options: &Options) -> Result<Self, TransportError> {
        let readers = (0..READERS).map(|_| database::open_reader(options).map(Mutex::new));
        readers.collect::<Result<_, _>>().map(Self)
    }

    /// Runs `work` on one that is free, or else waits for one.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut Connection) -> T) -> T {
        let free = self.0.iter().find_map(|reader| reader.try_lock().ok());
        let mut reader =
            free.unwrap_or_else(|| self.0[0].lock().unwrap_or_else(PoisonError::into_inner));
        work(&mut reader)
    }
}
