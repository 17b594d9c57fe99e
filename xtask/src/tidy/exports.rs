//! Items that a library offers to other crates, and the crates that use them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use syn::visit::{self, Visit};

use super::sources::{Crate, SourceFile, Sources, is_cfg_test};

/// A public item.
#[derive(Clone, Debug)]
pub struct Export {
    pub name: String,
    pub line: usize,
    /// The type that it is a method or constant of.
    pub owner: Option<String>,
    is_type: bool,
}

impl Export {
    pub fn path(&self) -> String {
        match &self.owner {
            Some(owner) => format!("{owner}::{}", self.name),
            None => self.name.clone(),
        }
    }
}

/// Declarations of one module's files for others.
#[derive(Default)]
struct Declared {
    exports: Vec<Export>,
    public_modules: BTreeSet<String>,
    /// Names that `pub use` hands on, by the last word of the path.
    handed_on: BTreeSet<String>,
    /// Modules of which everything is handed on.
    handed_on_whole: BTreeSet<String>,
    /// Names in public signatures, fields and implemented traits: whoever uses those uses these.
    mentioned: BTreeSet<String>,
}

/// Which crates use which words.
pub struct Users<'s> {
    /// A bit for each crate; tests, programs and examples are nobody's.
    users: HashMap<&'s str, u64>,
    bits: BTreeMap<&'s str, u64>,
}

const NOBODYS_BIT: u64 = 1 << 63;

impl<'s> Users<'s> {
    pub fn of(sources: &'s Sources) -> Self {
        let names = sources.crates.keys().map(String::as_str);
        let bits: BTreeMap<&str, u64> = names.enumerate().map(|(at, name)| (name, 1 << at)).collect();
        let mut users = Users {
            users: HashMap::new(),
            bits,
        };
        for (name, found) in &sources.crates {
            for file in &found.files {
                let is_outside = file.is_test && !file.path.starts_with(format!("crates/{name}/src"));
                let bit = match is_outside || file.is_program() {
                    true => NOBODYS_BIT,
                    false => users.bits[name.as_str()],
                };
                users.add(&file.text, bit);
            }
        }
        for text in &sources.beside {
            users.add(text, NOBODYS_BIT);
        }
        users
    }

    /// Adds the words of what is not a comment; of comments the examples, which are compiled as a crate of their own.
    fn add(&mut self, text: &'s str, bit: u64) {
        let mut is_example = false;
        for line in text.lines().map(str::trim_start) {
            let comment = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
            if let Some(comment) = comment {
                is_example ^= comment.trim_start().starts_with("```");
            } else {
                is_example = false;
            }
            let bit = match line.starts_with("//") {
                true if is_example => NOBODYS_BIT,
                true => continue,
                false => bit,
            };
            for word in words(line) {
                *self.users.entry(word).or_default() |= bit;
            }
        }
    }

    fn has_outside(&self, word: &str, name: &str) -> bool {
        let own = self.bits.get(name).copied().unwrap_or(0);
        self.users.get(word).is_some_and(|users| users & !own != 0)
    }
}

/// Public items that can be reached from outside their crate and that nobody outside uses, with their files.
pub fn unused<'c>(name: &str, found: &'c Crate, users: &Users<'_>) -> Vec<(&'c SourceFile, Export)> {
    if !found.is_library() {
        return Vec::new();
    }
    let files = || {
        found
            .files
            .iter()
            .filter(|file| !file.is_test && !file.is_program())
    };
    let modules: BTreeMap<&[String], Declared> = files()
        .map(|file| (file.module.as_slice(), Declared::of(&file.syntax)))
        .collect();
    let reachable = Reachable::of(&modules);
    let mentioned: BTreeSet<&String> = modules.values().flat_map(|module| &module.mentioned).collect();
    let mut unused = Vec::new();
    for file in files() {
        let exports = modules.get(file.module.as_slice());
        for export in exports.into_iter().flat_map(|module| &module.exports) {
            let is_used =
                users.has_outside(&export.name, name) || export.is_type && mentioned.contains(&export.name);
            if !is_used && reachable.has(&file.module, export) {
                unused.push((file, export.clone()));
            }
        }
    }
    unused
}

/// Items that other crates can name.
struct Reachable<'m> {
    public_modules: BTreeSet<&'m [String]>,
    /// Without their modules: two things of one name are one here.
    names: BTreeSet<&'m String>,
    handed_on: BTreeSet<&'m String>,
}

impl<'m> Reachable<'m> {
    fn of(modules: &'m BTreeMap<&'m [String], Declared>) -> Self {
        let is_public = |module: &[String]| {
            (0..module.len()).all(|depth| {
                let around = modules.get(&module[..depth]);
                around.is_some_and(|around| around.opens(&module[depth]))
            })
        };
        let public_modules: BTreeSet<&[String]> = modules
            .keys()
            .copied()
            .filter(|module| is_public(module))
            .collect();
        let public = || public_modules.iter().filter_map(|module| modules.get(module));
        let handed_on: BTreeSet<&String> = public().flat_map(|module| &module.handed_on).collect();
        let items = public()
            .flat_map(|module| &module.exports)
            .filter(|export| export.owner.is_none());
        let names = items
            .map(|export| &export.name)
            .chain(handed_on.iter().copied())
            .collect();
        Reachable {
            public_modules,
            names,
            handed_on,
        }
    }

    fn has(&self, module: &[String], export: &Export) -> bool {
        match &export.owner {
            Some(owner) => self.names.contains(owner),
            None => self.handed_on.contains(&export.name) || self.public_modules.contains(module),
        }
    }
}

/// The words of a text that could be names.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|character: char| !character.is_alphanumeric() && character != '_')
        .filter(|word| !word.is_empty())
}

impl Declared {
    fn opens(&self, module: &str) -> bool {
        self.public_modules.contains(module) || self.handed_on_whole.contains(module)
    }

    fn of(file: &syn::File) -> Self {
        let mut declared = Declared::default();
        declared.visit_file(file);
        declared
    }

    fn export(&mut self, name: &syn::Ident, owner: Option<String>, is_type: bool) {
        self.exports.push(Export {
            name: name.to_string(),
            line: name.span().start().line,
            owner,
            is_type,
        });
    }

    fn mention(&mut self, visit: impl FnOnce(&mut Mentions<'_>)) {
        visit(&mut Mentions(&mut self.mentioned));
    }

    fn hand_on(&mut self, tree: &syn::UseTree, around: Option<&syn::Ident>) {
        match tree {
            syn::UseTree::Path(path) => self.hand_on(&path.tree, Some(&path.ident)),
            syn::UseTree::Group(group) => group.items.iter().for_each(|item| self.hand_on(item, around)),
            syn::UseTree::Name(name) => drop(self.handed_on.insert(name.ident.to_string())),
            syn::UseTree::Rename(name) => drop(self.handed_on.insert(name.ident.to_string())),
            syn::UseTree::Glob(_) => self.handed_on_whole.extend(around.map(ToString::to_string)),
        }
    }
}

fn is_public(visibility: &syn::Visibility) -> bool {
    matches!(visibility, syn::Visibility::Public(_))
}

impl<'ast> Visit<'ast> for Declared {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if is_cfg_test(&item.attrs) {
            return;
        }
        if is_public(&item.vis) {
            self.public_modules.insert(item.ident.to_string());
        }
        if item.content.is_some() && is_public(&item.vis) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if is_public(&item.vis) {
            self.hand_on(&item.tree, None);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if is_public(&item.vis) && !is_cfg_test(&item.attrs) {
            self.export(&item.sig.ident, None, false);
            self.mention(|mentions| mentions.visit_signature(&item.sig));
        }
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        if is_public(&item.vis) && !is_cfg_test(&item.attrs) {
            self.export(&item.ident, None, true);
            self.mention(|mentions| {
                mentions.visit_generics(&item.generics);
                let fields = item.fields.iter().filter(|field| is_public(&field.vis));
                fields.for_each(|field| mentions.visit_field(field));
            });
        }
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        if is_public(&item.vis) && !is_cfg_test(&item.attrs) {
            self.export(&item.ident, None, true);
            self.mention(|mentions| mentions.visit_item_enum(item));
        }
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        if is_public(&item.vis) && !is_cfg_test(&item.attrs) {
            self.export(&item.ident, None, true);
            self.mention(|mentions| mentions.visit_item_trait(item));
        }
    }

    fn visit_item_type(&mut self, item: &'ast syn::ItemType) {
        if is_public(&item.vis) {
            self.export(&item.ident, None, true);
        }
        // A private one may be what a public signature says.
        self.mention(|mentions| mentions.visit_item_type(item));
    }

    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        if is_public(&item.vis) && !is_cfg_test(&item.attrs) {
            self.export(&item.ident, None, false);
            self.mention(|mentions| mentions.visit_type(&item.ty));
        }
    }

    fn visit_item_static(&mut self, item: &'ast syn::ItemStatic) {
        if is_public(&item.vis) && !is_cfg_test(&item.attrs) {
            self.export(&item.ident, None, false);
            self.mention(|mentions| mentions.visit_type(&item.ty));
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if is_cfg_test(&item.attrs) {
            return;
        }
        self.mention(|mentions| mentions.visit_generics(&item.generics));
        if let Some((_, path, _)) = &item.trait_ {
            self.mention(|mentions| mentions.visit_path(path));
        }
        let owner = match &*item.self_ty {
            syn::Type::Path(path) => path.path.segments.last().map(|last| last.ident.to_string()),
            _ => None,
        };
        for inner in &item.items {
            match inner {
                syn::ImplItem::Fn(function) if item.trait_.is_some() || is_public(&function.vis) => {
                    if item.trait_.is_none() && !is_cfg_test(&function.attrs) {
                        self.export(&function.sig.ident, owner.clone(), false);
                    }
                    self.mention(|mentions| mentions.visit_signature(&function.sig));
                }
                syn::ImplItem::Const(constant) if is_public(&constant.vis) => {
                    self.export(&constant.ident, owner.clone(), false);
                }
                syn::ImplItem::Type(kind) => self.mention(|mentions| mentions.visit_type(&kind.ty)),
                _ => {}
            }
        }
    }
}

/// Names in what is visited.
struct Mentions<'m>(&'m mut BTreeSet<String>);

impl<'ast> Visit<'ast> for Mentions<'_> {
    fn visit_path_segment(&mut self, segment: &'ast syn::PathSegment) {
        self.0.insert(segment.ident.to_string());
        visit::visit_path_segment(self, segment);
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::items::Items;
    use super::*;

    fn file(path: &str, module: &[&str], is_test: bool, text: &str) -> SourceFile {
        let syntax = syn::parse_file(text).unwrap();
        SourceFile {
            path: PathBuf::from(path),
            text: text.to_owned(),
            items: Items::of(&syntax),
            syntax,
            module: module.iter().map(|name| (*name).to_owned()).collect(),
            is_test,
        }
    }

    fn library(files: Vec<SourceFile>) -> Crate {
        Crate {
            dependencies: Vec::new(),
            files,
        }
    }

    fn unused_in(root: &str, inside: &str, other: &str) -> Vec<String> {
        let own = vec![
            file("crates/a/src/lib.rs", &[], false, root),
            file("crates/a/src/inside.rs", &["inside"], false, inside),
        ];
        let others = vec![file("crates/b/src/lib.rs", &[], false, other)];
        let crates = [("a", library(own)), ("b", library(others))];
        let sources = Sources {
            crates: crates.map(|(name, found)| (name.to_owned(), found)).into(),
            beside: Vec::new(),
        };
        let found = unused("a", &sources.crates["a"], &Users::of(&sources));
        found.iter().map(|(_, export)| export.path()).collect()
    }

    #[test]
    fn an_item_that_only_its_own_crate_uses_is_found() {
        let inside = "pub fn used() {}\npub fn own() { used() }\npub(crate) fn fine() {}";
        assert_eq!(
            unused_in("pub mod inside;", inside, "fn f() { a::inside::used() }"),
            ["own"]
        );
        assert_eq!(
            unused_in("mod inside;\nfn f() { inside::own() }", inside, ""),
            [""; 0]
        );
        assert_eq!(
            unused_in("mod inside;\npub use inside::own;", inside, ""),
            ["own"]
        );
        assert_eq!(
            unused_in("mod inside;\npub use inside::*;", inside, ""),
            ["used", "own"]
        );
        assert_eq!(
            unused_in("pub mod inside;", inside, "// used() and own()"),
            ["used", "own"]
        );
    }

    #[test]
    fn methods_are_found_and_types_of_signatures_are_needed() {
        let inside = "pub struct Owner;\nimpl Owner { pub fn asked(&self) -> Answer { Answer } pub fn other(&self) {} }\n\
                      pub struct Answer;\npub struct Nobody;";
        let used = "fn f(owner: a::inside::Owner) { owner.asked(); }";
        assert_eq!(
            unused_in("pub mod inside;", inside, used),
            ["Owner::other", "Nobody"]
        );
    }

    #[test]
    fn examples_in_the_documentation_are_users() {
        let inside = "/// ```\n/// a::inside::shown();\n/// ```\npub fn shown() {}\n/// See hidden.\npub fn hidden() {}";
        assert_eq!(unused_in("pub mod inside;", inside, ""), ["hidden"]);
    }
}
