//! Cassandra's jars: named by `tests/peer/pom.xml`, used from where Maven keeps them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::PeerError;
use crate::{runtime, workspace};

/// The flags that Cassandra 5.0 needs to reach into a Java 17 runtime: modules whose packages its
/// own start script opens to it.
const EXPORTS: &[&str] = &[
    "java.base/java.lang.ref",
    "java.base/jdk.internal.misc",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.management.rmi/com.sun.jmx.remote.internal.rmi",
    "java.rmi/sun.rmi.registry",
    "java.rmi/sun.rmi.server",
    "java.sql/java.sql",
    "jdk.attach/sun.tools.attach",
    "jdk.compiler/com.sun.tools.javac.file",
    "jdk.unsupported/sun.misc",
];
const OPENS: &[&str] = &[
    "java.base/java.io",
    "java.base/java.lang",
    "java.base/java.lang.module",
    "java.base/java.lang.reflect",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/jdk.internal.loader",
    "java.base/jdk.internal.math",
    "java.base/jdk.internal.module",
    "java.base/jdk.internal.ref",
    "java.base/jdk.internal.reflect",
    "java.base/jdk.internal.util.jar",
    "java.base/sun.nio.ch",
    "jdk.compiler/com.sun.tools.javac",
    "jdk.management/com.sun.management.internal",
];

/// A `java` command with Cassandra's classpath and the flags it needs.
pub fn java() -> Result<Command, PeerError> {
    java_on(runtime::maven_classpath("cassandra", &pom())?)
}

/// The same with classes of our own.
pub fn java_with(classes: &Path) -> Result<Command, PeerError> {
    let jars = runtime::maven_classpath("cassandra", &pom())?;
    java_on(format!("{}:{jars}", classes.display()))
}

fn pom() -> PathBuf {
    workspace::path("tests/peer/pom.xml")
}

fn java_on(classpath: String) -> Result<Command, PeerError> {
    let mut java = Command::new("java");
    java.arg("-Djdk.attach.allowAttachSelf=true")
        .arg("-Dio.netty.tryReflectionSetAccessible=true");
    for export in EXPORTS {
        java.arg("--add-exports").arg(format!("{export}=ALL-UNNAMED"));
    }
    for open in OPENS {
        java.arg("--add-opens").arg(format!("{open}=ALL-UNNAMED"));
    }
    java.arg("-cp").arg(classpath);
    Ok(java)
}

/// Writes a file of a node's folder, making the folder.
pub fn write(path: &Path, text: &str) -> Result<(), PeerError> {
    let fail = |source| PeerError::File {
        path: path.to_path_buf(),
        source,
    };
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(fail)?;
    }
    fs::write(path, text).map_err(fail)
}
