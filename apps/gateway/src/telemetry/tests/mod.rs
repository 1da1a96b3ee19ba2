//! Telemetry as others see it: what a scraper reads, what a collector receives, what stderr shows.

mod collector;
mod exposition;
mod lab;
mod logs;
mod measuring;
mod metrics;
mod privacy;
mod program;
mod shutdown;
mod traces;
