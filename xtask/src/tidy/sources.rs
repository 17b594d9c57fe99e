//! All Rust files of the workspace, parsed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::items::Items;
use crate::TaskError;
use crate::workspace;

pub struct Sources {
    /// By the crate's folder name, such as `storage`; `xtask` is one.
    pub crates: BTreeMap<String, Crate>,
    /// Texts of Rust programs outside of the workspace that use its crates: fuzz targets, and the driver's test.
    pub beside: Vec<String>,
}

pub struct Crate {
    /// Names of the workspace's crates that it depends on, without those of its tests.
    pub dependencies: Vec<String>,
    pub files: Vec<SourceFile>,
}

pub struct SourceFile {
    /// From the workspace's root.
    pub path: PathBuf,
    pub text: String,
    pub syntax: syn::File,
    pub items: Items,
    /// Where in the crate: `["sstable", "bti"]`; empty for the crate's root.
    pub module: Vec<String>,
    /// True for a file of `tests`, `examples` or `benches`, or declared under `#[cfg(test)]`.
    pub is_test: bool,
}

impl Crate {
    /// Returns whether other crates can use it.
    pub fn is_library(&self) -> bool {
        self.files.iter().any(|file| file.path.ends_with("src/lib.rs"))
    }
}

impl SourceFile {
    /// Returns whether the file is of a program beside the library of its crate.
    pub fn is_program(&self) -> bool {
        self.path.ends_with("src/main.rs") || self.module.first().is_some_and(|first| first == "bin")
    }
}

impl Sources {
    pub fn load() -> Result<Self, TaskError> {
        let mut crates = BTreeMap::new();
        let mut folders: Vec<PathBuf> = list(&workspace::path("crates"));
        folders.push(workspace::path("xtask"));
        for folder in folders {
            let name = file_name(&folder);
            crates.insert(name, load_crate(&folder)?);
        }
        let beside = ["fuzz/fuzz_targets", "tests/drivers/rust"].map(workspace::path);
        let beside = beside.iter().flat_map(|folder| rust_files(folder));
        let beside = beside.filter_map(|path| fs::read_to_string(path).ok()).collect();
        Ok(Sources { crates, beside })
    }

    /// All files of products: no tests, and no tools of the developers.
    pub fn products(&self) -> impl Iterator<Item = (&str, &SourceFile)> {
        let products = self
            .crates
            .iter()
            .filter(|(name, _)| !DEVELOPERS_CRATES.contains(&name.as_str()));
        products.flat_map(|(name, found)| {
            let files = found.files.iter().filter(|file| !file.is_test);
            files.map(|file| (name.as_str(), file))
        })
    }

    pub fn all(&self) -> impl Iterator<Item = &SourceFile> {
        self.crates.values().flat_map(|found| &found.files)
    }
}

/// Crates that no user runs.
pub const DEVELOPERS_CRATES: [&str; 6] = [
    "xtask",
    "test-node",
    "test-heap",
    "storage-model",
    "fuzz-targets",
    "metamorphic",
];

fn load_crate(folder: &Path) -> Result<Crate, TaskError> {
    let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap_or_default();
    let mut files = Vec::new();
    for (kind, is_test) in [
        ("src", false),
        ("tests", true),
        ("examples", true),
        ("benches", true),
    ] {
        for path in rust_files(&folder.join(kind)) {
            let text = fs::read_to_string(&path).unwrap_or_default();
            let syntax = syn::parse_file(&text).map_err(|error| TaskError::Tidy {
                path: path.clone(),
                reason: error.to_string(),
            })?;
            let module = module_of(path.strip_prefix(folder.join(kind)).unwrap_or(&path));
            files.push(SourceFile {
                path: path.strip_prefix(workspace::root()).unwrap_or(&path).to_owned(),
                text,
                items: Items::of(&syntax),
                syntax,
                module,
                is_test,
            });
        }
    }
    mark_test_modules(&mut files);
    Ok(Crate {
        dependencies: dependencies_of(&manifest),
        files,
    })
}

/// Files of modules that are declared under `#[cfg(test)]`.
fn mark_test_modules(files: &mut [SourceFile]) {
    let mut of_tests: Vec<Vec<String>> = Vec::new();
    for file in files.iter() {
        for item in &file.syntax.items {
            if let syn::Item::Mod(module) = item
                && module.content.is_none()
                && is_cfg_test(&module.attrs)
            {
                let mut path = file.module.clone();
                path.push(module.ident.to_string());
                of_tests.push(path);
            }
        }
    }
    for file in files {
        file.is_test |= of_tests.iter().any(|path| file.module.starts_with(path));
    }
}

pub fn is_cfg_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute
                .meta
                .require_list()
                .is_ok_and(|list| list.tokens.to_string().contains("test"))
    })
}

fn module_of(path: &Path) -> Vec<String> {
    let mut module: Vec<String> = path
        .with_extension("")
        .components()
        .map(|part| part.as_os_str().to_string_lossy().into_owned())
        .collect();
    if module
        .last()
        .is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str()))
    {
        module.pop();
    }
    module
}

/// The workspace's crates in `[dependencies]`, without the `helenus-` of their names.
fn dependencies_of(manifest: &str) -> Vec<String> {
    let section = manifest
        .split("\n[")
        .find_map(|section| section.strip_prefix("dependencies]"));
    let lines = section.unwrap_or_default().lines();
    lines
        .filter_map(|line| line.strip_prefix("helenus-"))
        .filter_map(|line| line.split(['.', ' ', '=']).next())
        .map(str::to_owned)
        .collect()
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for path in list(folder) {
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}

fn list(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

fn file_name(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}
