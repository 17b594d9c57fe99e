//! Which keyspaces are the system's. As in Cassandra, the question ignores case.

/// Kept by each node for itself.
const LOCAL: [&str; 2] = ["system", "system_schema"];

/// Served from code in Cassandra, too.
const VIRTUAL: [&str; 2] = ["system_views", "system_virtual_schema"];

/// Stored like user data.
const REPLICATED: [&str; 3] = ["system_auth", "system_distributed", "system_traces"];

/// Keyspaces nobody may change, virtual ones included.
pub fn is_local_system_keyspace(name: &str) -> bool {
    contains(&LOCAL, name) || is_virtual_system_keyspace(name)
}

pub fn is_virtual_system_keyspace(name: &str) -> bool {
    contains(&VIRTUAL, name)
}

pub fn is_replicated_system_keyspace(name: &str) -> bool {
    contains(&REPLICATED, name)
}

pub fn is_system_keyspace(name: &str) -> bool {
    is_local_system_keyspace(name) || is_replicated_system_keyspace(name)
}

/// Returns whether the rows of this keyspace's tables are made when they are asked for, or are written by the node alone: no
/// statement changes them.
pub fn is_made_from_code(name: &str) -> bool {
    is_local_system_keyspace(name)
}

fn contains(names: &[&str], name: &str) -> bool {
    names.iter().any(|system| system.eq_ignore_ascii_case(name))
}
