//! Cassandra's own offline and operator tools, run on files that it did not write itself.

use std::path::Path;
use std::process::Command;

use super::{PeerError, jars};
use crate::process;

/// The name a user knows and the class behind it, in package `org.apache.cassandra.tools`.
const TOOLS: &[(&str, &str)] = &[
    ("nodetool", "NodeTool"),
    ("sstabledump", "SSTableExport"),
    ("sstableloader", "BulkLoader"),
    ("sstablemetadata", "SSTableMetadataViewer"),
    ("sstablepartitions", "SSTablePartitions"),
    ("sstablescrub", "StandaloneScrubber"),
    ("sstableutil", "StandaloneSSTableUtil"),
    ("sstableverify", "StandaloneVerifier"),
];

/// Runs the tool called `name`; tools that need a configuration get one of their own below `home`.
pub fn run(home: &Path, name: &str, arguments: &[String]) -> Result<(), PeerError> {
    let Some((_, class)) = TOOLS.iter().find(|(known, _)| *known == name) else {
        let known = TOOLS
            .iter()
            .map(|(known, _)| *known)
            .collect::<Vec<_>>()
            .join(", ");
        return Err(PeerError::UnknownTool {
            name: name.to_owned(),
            known,
        });
    };
    let folder = home.join("tool");
    jars::write(&folder.join("logback.xml"), NO_LOGGING)?;
    // In this mode all versions are read, those of Cassandra 5.0 too.
    let configuration = format!("{CONFIGURATION}storage_compatibility_mode: NONE\n");
    jars::write(&folder.join("cassandra.yaml"), &configuration)?;
    let mut java = jars::java()?;
    configure(&mut java, &folder);
    java.arg(format!("org.apache.cassandra.tools.{class}"))
        .args(arguments);
    Ok(process::run(&mut java)?)
}

/// Makes a `java` command use the configuration and the data in `folder`.
pub fn configure(java: &mut Command, folder: &Path) {
    java.arg("-Xmx1g")
        .arg(format!("-Dcassandra.storagedir={}", folder.display()))
        .arg(format!(
            "-Dcassandra.config=file://{}",
            folder.join("cassandra.yaml").display()
        ))
        .arg(format!(
            "-Dlogback.configurationFile={}",
            folder.join("logback.xml").display()
        ));
}

pub const NO_LOGGING: &str = "<configuration><root level=\"OFF\"/></configuration>\n";

pub const CONFIGURATION: &str = "cluster_name: tool
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
commitlog_sync: periodic
commitlog_sync_period: 10000ms
endpoint_snitch: SimpleSnitch
listen_address: 127.0.71.9
seed_provider:
  - class_name: org.apache.cassandra.locator.SimpleSeedProvider
    parameters: [{seeds: \"127.0.71.9:7000\"}]
";
