//! Items of a file that the rules look at: functions with their lines, paths that are used, macros that are called.

use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use super::sources::is_cfg_test;

pub struct Function {
    pub name: String,
    pub line: usize,
    /// From the signature to the closing brace.
    pub lines: usize,
}

/// A path as it is written in code or a `use`, such as `crate::store::Table`.
pub struct UsedPath {
    pub segments: Vec<String>,
    pub line: usize,
}

/// Everything outside of tests.
#[derive(Default)]
pub struct Items {
    pub functions: Vec<Function>,
    pub paths: Vec<UsedPath>,
    /// Names that `pub use` offers, with the paths that they lead to as written.
    pub reexports: Vec<(String, Vec<String>)>,
    /// Names of called macros, with the line.
    pub macros: Vec<(String, usize)>,
    /// Lines of `unsafe` blocks, functions and impls.
    pub unsafes: Vec<usize>,
}

impl Items {
    pub fn of(file: &syn::File) -> Self {
        let mut items = Items::default();
        items.visit_file(file);
        items
    }

    fn function(&mut self, name: &syn::Ident, whole: proc_macro2::Span) {
        let (start, end) = (name.span().start().line, whole.end().line);
        self.functions.push(Function {
            name: name.to_string(),
            line: start,
            lines: end + 1 - start,
        });
    }

    fn use_tree(&mut self, tree: &syn::UseTree, prefix: &[String]) {
        let extended = |ident: &syn::Ident| {
            let mut path = prefix.to_vec();
            path.push(ident.to_string());
            path
        };
        match tree {
            syn::UseTree::Path(path) => self.use_tree(&path.tree, &extended(&path.ident)),
            syn::UseTree::Group(group) => group.items.iter().for_each(|item| self.use_tree(item, prefix)),
            syn::UseTree::Name(name) => self.used(extended(&name.ident), name.ident.span()),
            syn::UseTree::Rename(name) => self.used(extended(&name.ident), name.ident.span()),
            syn::UseTree::Glob(glob) => self.used(prefix.to_vec(), glob.span()),
        }
    }

    fn reexport(&mut self, tree: &syn::UseTree, prefix: &[String]) {
        let extended = |ident: &syn::Ident| [prefix, &[ident.to_string()]].concat();
        match tree {
            syn::UseTree::Path(path) => self.reexport(&path.tree, &extended(&path.ident)),
            syn::UseTree::Group(group) => group.items.iter().for_each(|item| self.reexport(item, prefix)),
            syn::UseTree::Name(name) => self
                .reexports
                .push((name.ident.to_string(), extended(&name.ident))),
            syn::UseTree::Rename(name) => self
                .reexports
                .push((name.rename.to_string(), extended(&name.ident))),
            syn::UseTree::Glob(_) => {}
        }
    }

    fn used(&mut self, segments: Vec<String>, span: proc_macro2::Span) {
        self.paths.push(UsedPath {
            segments,
            line: span.start().line,
        });
    }
}

impl<'ast> Visit<'ast> for Items {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_cfg_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if is_cfg_test(&item.attrs) || is_test(&item.attrs) {
            return;
        }
        self.function(&item.sig.ident, item.block.span());
        if item.sig.unsafety.is_some() {
            self.unsafes.push(item.sig.span().start().line);
        }
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if is_cfg_test(&item.attrs) {
            return;
        }
        self.function(&item.sig.ident, item.block.span());
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if is_cfg_test(&item.attrs) {
            return;
        }
        if item.unsafety.is_some() {
            self.unsafes.push(item.impl_token.span().start().line);
        }
        visit::visit_item_impl(self, item);
    }

    fn visit_expr_unsafe(&mut self, expression: &'ast syn::ExprUnsafe) {
        self.unsafes.push(expression.unsafe_token.span().start().line);
        visit::visit_expr_unsafe(self, expression);
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if !is_cfg_test(&item.attrs) {
            self.use_tree(&item.tree, &[]);
            if !matches!(item.vis, syn::Visibility::Inherited) {
                self.reexport(&item.tree, &[]);
            }
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments = path.segments.iter().map(|segment| segment.ident.to_string());
        self.used(segments.collect(), path.span());
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, called: &'ast syn::Macro) {
        if let Some(name) = called.path.segments.last() {
            self.macros
                .push((name.ident.to_string(), name.ident.span().start().line));
        }
        // What is inside is tokens; the paths in them are of the form `a::b`.
        let mut words: Vec<String> = Vec::new();
        let mut line = called.span().start().line;
        for token in called.tokens.clone() {
            match token {
                proc_macro2::TokenTree::Ident(ident) => {
                    line = ident.span().start().line;
                    words.push(ident.to_string());
                }
                proc_macro2::TokenTree::Punct(punct) if punct.as_char() == ':' => {}
                _ => {
                    if words.len() > 1 {
                        self.paths.push(UsedPath {
                            segments: std::mem::take(&mut words),
                            line,
                        });
                    }
                    words.clear();
                }
            }
        }
    }
}

fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes
        .iter()
        .any(|attribute| attribute.path().is_ident("test"))
}
