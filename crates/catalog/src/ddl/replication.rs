//! Replication strategies and their options.
//!
//! One node keeps one copy of everything whatever the options say. They are still checked, completed and kept as
//! Cassandra does it, because drivers and schema tools read them back.

use std::collections::BTreeMap;
use std::sync::Arc;

use helenus_engine::CqlError;
use helenus_schema::{Replication, is_system_keyspace};

use super::change::DdlContext;

const PACKAGE: &str = "org.apache.cassandra.locator.";
const FACTOR: &str = "replication_factor";

/// The factor of a strategy that is given none (`default_keyspace_rf`).
const FACTOR_DEFAULT: &str = "1";

type Options = BTreeMap<Arc<str>, Arc<str>>;

/// Completes the options as written: the strategy's full name, defaults, `replication_factor` spread over the
/// datacenters. `previous` is what an ALTER starts from.
pub(super) fn prepare(
    written: &[(String, String)],
    previous: Option<&Replication>,
    context: &DdlContext<'_>,
) -> Result<Replication, CqlError> {
    let mut options: Options = written
        .iter()
        .map(|(name, value)| (Arc::from(&**name), Arc::from(&**value)))
        .collect();
    let class = options.remove("class").ok_or_else(|| {
        // The words of Cassandra for `replication = {}`.
        CqlError::server(format_args!(
            "java.lang.NullPointerException: Cannot invoke \"String.contains(java.lang.CharSequence)\" because \
             \"cls\" is null"
        ))
    })?;
    let class = strategy_class(&class)?;
    let empty = Options::new();
    let previous = previous.map_or(&empty, |replication| &replication.options);
    let previous_factor = previous.get(FACTOR).cloned();
    match class.strip_prefix(PACKAGE) {
        Some("SimpleStrategy") => {
            let factor = previous_factor.unwrap_or_else(|| FACTOR_DEFAULT.into());
            options.entry(FACTOR.into()).or_insert(factor);
        }
        Some("NetworkTopologyStrategy") => {
            spread_over_data_centers(&mut options, previous, previous_factor, context);
        }
        _ => {
            return Err(CqlError::invalid(format_args!(
                "Unable to use given strategy class: LocalStrategy is reserved for internal use."
            )));
        }
    }
    Ok(Replication {
        class: class.into(),
        options,
    })
}

/// Refuses options the strategy does not take, and returns the warnings for those that one node cannot fulfil.
pub(super) fn validate(
    keyspace: &str,
    replication: &Replication,
    context: &DdlContext<'_>,
) -> Result<Vec<String>, CqlError> {
    let is_simple = replication.class.ends_with(".SimpleStrategy");
    let mut warnings = Vec::new();
    for (name, value) in &replication.options {
        if !is_simple && name.eq_ignore_ascii_case(FACTOR) {
            return Err(CqlError::config(format_args!(
                "{FACTOR} is an option for simple strategy only, not NetworkTopologyStrategy"
            )));
        }
        if !is_simple || &**name == FACTOR {
            let factor = parse_factor(value)?;
            if factor > 1 && !is_system_keyspace(keyspace) {
                warnings.push(too_many_copies(keyspace, factor, (!is_simple).then_some(name)));
            }
        }
    }
    if !is_simple && replication.options.is_empty() {
        return Err(CqlError::config(format_args!(
            "Configuration for at least one datacenter must be present"
        )));
    }
    let expected = if is_simple { FACTOR } else { context.data_center };
    let strategy = if is_simple {
        "SimpleStrategy"
    } else {
        "NetworkTopologyStrategy"
    };
    match replication.options.keys().find(|name| &***name != expected) {
        Some(unknown) => Err(CqlError::config(format_args!(
            "Unrecognized strategy option {{{unknown}}} passed to {strategy} for keyspace {keyspace}"
        ))),
        None => Ok(warnings),
    }
}

/// How many copies of a row the options ask for, over all datacenters.
pub(super) fn copies(replication: &Replication) -> i64 {
    replication
        .options
        .values()
        .filter_map(|value| parse_factor(value).ok())
        .map(i64::from)
        .sum()
}

fn too_many_copies(keyspace: &str, factor: i32, data_center: Option<&Arc<str>>) -> String {
    let place = data_center
        .map(|name| format!(" for datacenter {name}"))
        .unwrap_or_default();
    format!(
        "Your replication factor {factor} for keyspace {keyspace} is higher than the number of nodes 1{place}"
    )
}

fn strategy_class(written: &str) -> Result<String, CqlError> {
    let class = if written.contains('.') {
        written.to_owned()
    } else {
        format!("{PACKAGE}{written}")
    };
    match class.strip_prefix(PACKAGE) {
        Some("SimpleStrategy" | "NetworkTopologyStrategy" | "LocalStrategy") => Ok(class),
        Some("OldNetworkTopologyStrategy") => Err(CqlError::config(format_args!(
            "The support for the OldNetworkTopologyStrategy has been removed in C* version 4.0. The keyspace strategy \
             should be switch to NetworkTopologyStrategy"
        ))),
        _ => Err(CqlError::config(format_args!(
            "Unable to find replication strategy class '{class}'"
        ))),
    }
}

/// `replication_factor` stands for every datacenter that is not named. What an ALTER does not mention stays as it was.
fn spread_over_data_centers(
    options: &mut Options,
    previous: &Options,
    previous_factor: Option<Arc<str>>,
    context: &DdlContext<'_>,
) {
    if options.is_empty() {
        options.insert(
            FACTOR.into(),
            previous_factor.unwrap_or_else(|| FACTOR_DEFAULT.into()),
        );
    }
    if let Some(factor) = options.remove(FACTOR) {
        for (name, value) in previous.iter().filter(|(name, _)| &***name != FACTOR) {
            options
                .entry(Arc::clone(name))
                .or_insert_with(|| Arc::clone(value));
        }
        // A factor that is no number is dropped here; that no datacenter is left is what Cassandra then reports.
        if parse_factor(&factor).is_ok() {
            options.entry(context.data_center.into()).or_insert(factor);
        }
    }
    options.retain(|_, value| &**value != "0");
}

/// A count of copies. Transient ones (`3/1`) are off, as by default in Cassandra.
fn parse_factor(text: &str) -> Result<i32, CqlError> {
    if text.contains('/') {
        return Err(CqlError::config(format_args!(
            "Transient replication is not enabled on this node"
        )));
    }
    let factor: i32 = text
        .parse()
        .map_err(|_| CqlError::config(format_args!("For input string: \"{text}\"")))?;
    if factor < 0 {
        return Err(CqlError::config(format_args!(
            "Replication factor must be non-negative, found {factor}"
        )));
    }
    Ok(factor)
}
