//! Delivery to endpoints.
