//! A node's access to the machine: disk, clock, threads and randomness, as traits that a test can own.
//!
//! Everything here but a [`read_queue`] blocks; callers that must not wait run it on a thread of their own. Nothing above this crate
//! touches `std::fs`, `SystemTime` or an entropy source directly, so one seed can drive a whole simulated node.

pub mod disk;
pub mod read_queue;

pub mod memory_disk;
pub mod real_disk;
pub mod simulated_disk;

pub mod clock;
pub mod random;
pub mod threads;

pub use clock::{Clock, ManualClock, SystemClock, process_time, thread_time};
pub use disk::{DirectoryEntry, DirectoryLock, Disk, DiskUsage, EntryKind, File};
pub use memory_disk::MemoryDisk;
pub use random::{Random, SeededRandom, SystemRandom};
pub use read_queue::{CompletedRead, DiskIo, QueuedRead, ReadQueue};
pub use real_disk::RealDisk;
pub use simulated_disk::{Fault, FaultKind, Operation, SimulatedDisk};
pub use threads::{SystemThreads, Threads, Urgency, Worker};
