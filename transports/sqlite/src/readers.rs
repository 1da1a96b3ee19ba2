//! A small pool of read-only connections: one operator's long listing does not block the short ones of others.

use std::sync::{Mutex, PoisonError};

use bezoar_core::TransportError;
use rusqlite::Connection;

use crate::{Options, database};

/// How many reads run at a time; further ones wait.
const READERS: usize = 3;

#[derive(Debug)]
pub(crate) struct Readers(Vec<Mutex<Connection>>);

impl Readers {
    pub(crate) fn open(options: &Options) -> Result<Self, TransportError> {
        let readers = (0..READERS).map(|_| database::open_reader(options).map(Mutex::new));
        readers.collect::<Result<_, _>>().map(Self)
    }

    /// Runs `work` on a free connection, or waits for one.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut Connection) -> T) -> T {
        let free = self.0.iter().find_map(|reader| reader.try_lock().ok());
        let mut reader =
            free.unwrap_or_else(|| self.0[0].lock().unwrap_or_else(PoisonError::into_inner));
        work(&mut reader)
    }
}
