//! Fetching, leasing and settling.

pub(crate) mod fetcher;
pub(crate) mod leases;
pub(crate) mod settle;
pub(crate) mod subscription;
