//! Sessions against a real server in this process.

mod fault_proxy;
mod faults;
mod requests;
mod rolling_restart;
mod server;
#[cfg(feature = "tls")]
mod tls;
