//! Permissions and the resources they are about.

use super::cursor::Parser;
use super::rejection::Parsed;
use crate::ast::{GrantPermissions, ListPermissions, Permission, Resource, RevokePermissions};
use crate::lexer::{Keyword, TokenKind};

impl Parser<'_> {
    pub(super) fn grant_permissions(&mut self) -> Parsed<GrantPermissions> {
        self.expect_keyword(Keyword::Grant)?;
        let permissions = self.permissions()?;
        self.expect_keyword(Keyword::On)?;
        let resource = self.resource()?;
        self.expect_keyword(Keyword::To)?;
        let grantee = self.role_name()?;
        self.check_applicable(permissions.as_deref(), &resource)?;
        Ok(GrantPermissions {
            permissions,
            resource,
            grantee,
        })
    }

    pub(super) fn revoke_permissions(&mut self) -> Parsed<RevokePermissions> {
        self.expect_keyword(Keyword::Revoke)?;
        let permissions = self.permissions()?;
        self.expect_keyword(Keyword::On)?;
        let resource = self.resource()?;
        self.expect_keyword(Keyword::From)?;
        let revokee = self.role_name()?;
        self.check_applicable(permissions.as_deref(), &resource)?;
        Ok(RevokePermissions {
            permissions,
            resource,
            revokee,
        })
    }

    pub(super) fn list_permissions(&mut self) -> Parsed<ListPermissions> {
        self.expect_keyword(Keyword::List)?;
        let permissions = self.permissions()?;
        let resource = if self.accept_keyword(Keyword::On) {
            Some(self.resource()?)
        } else {
            None
        };
        let grantee = if self.accept_keyword(Keyword::Of) {
            Some(self.role_name()?)
        } else {
            None
        };
        let recursive = !self.accept_keyword(Keyword::NoRecursive);
        Ok(ListPermissions {
            permissions,
            resource,
            grantee,
            recursive,
        })
    }

    /// None for `ALL [PERMISSIONS]`.
    fn permissions(&mut self) -> Parsed<Option<Vec<Permission>>> {
        if self.accept_keyword(Keyword::All) {
            self.accept_keyword(Keyword::Permissions);
            return Ok(None);
        }
        if permission(self.next()).is_none() {
            return self.no_viable(1);
        }
        self.comma_separated(|parser| {
            let Some(permission) = permission(parser.next()) else {
                return parser.expected_one_of_several();
            };
            parser.consume();
            parser.accept_keyword(Keyword::Permission);
            Ok(permission)
        })
        .map(Some)
    }

    /// At least one of the permissions has to make sense for the resource.
    fn check_applicable(&self, permissions: Option<&[Permission]>, resource: &Resource) -> Parsed<()> {
        let Some(permissions) = permissions else {
            return Ok(());
        };
        if permissions
            .iter()
            .any(|permission| resource.supports(*permission))
        {
            return Ok(());
        }
        let kind = resource.class_name();
        self.broken_rule(format!(
            "Resource type {kind} does not support any of the requested permissions"
        ))
    }

    fn resource(&mut self) -> Parsed<Resource> {
        let second = self.look_after_resource_keyword();
        match self.next() {
            TokenKind::Keyword(Keyword::All) => match second {
                TokenKind::Keyword(Keyword::Functions) => self.all_functions(),
                TokenKind::Keyword(Keyword::Mbeans) => self.two_words(Resource::AllMbeans),
                TokenKind::Keyword(Keyword::Roles) => self.two_words(Resource::AllRoles),
                TokenKind::Keyword(Keyword::Keyspaces) => self.two_words(Resource::AllKeyspaces),
                TokenKind::Keyword(Keyword::Tables) => {
                    self.expect_keywords(&[Keyword::All, Keyword::Tables, Keyword::In, Keyword::Keyspace])?;
                    self.keyspace_name().map(Resource::AllTablesIn)
                }
                kind if ends_resource_name(kind) => self.table_name().map(Resource::Table),
                _ => self.no_viable(2),
            },
            TokenKind::Keyword(Keyword::Function) => match second {
                kind if ends_resource_name(kind) => self.table_name().map(Resource::Table),
                TokenKind::QuestionMark | TokenKind::Keyword(Keyword::Token) => self.function_resource(),
                kind if kind.is_identifier() => self.function_resource(),
                _ => self.no_viable(2),
            },
            TokenKind::Keyword(keyword @ (Keyword::Mbean | Keyword::Mbeans)) => match second {
                kind if ends_resource_name(kind) => self.table_name().map(Resource::Table),
                TokenKind::String => self.mbean_resource(keyword),
                _ => self.no_viable(2),
            },
            TokenKind::Keyword(Keyword::Role) => match second {
                kind if ends_resource_name(kind) => self.table_name().map(Resource::Table),
                TokenKind::QuestionMark | TokenKind::String => self.role_resource(),
                kind if kind.is_identifier() => self.role_resource(),
                _ => self.no_viable(2),
            },
            TokenKind::Keyword(Keyword::Keyspace) => {
                self.consume();
                self.keyspace_name().map(Resource::Keyspace)
            }
            TokenKind::Keyword(Keyword::ColumnFamily) => {
                self.consume();
                self.table_name().map(Resource::Table)
            }
            kind if kind.is_identifier() || kind == TokenKind::QuestionMark => {
                self.table_name().map(Resource::Table)
            }
            _ => self.no_viable(1),
        }
    }

    /// The token after a keyword that may also name a table; other tokens decide by themselves.
    fn look_after_resource_keyword(&self) -> TokenKind {
        let ambiguous = matches!(
            self.next(),
            TokenKind::Keyword(
                Keyword::All | Keyword::Function | Keyword::Mbean | Keyword::Mbeans | Keyword::Role
            )
        );
        if ambiguous { self.look(2) } else { TokenKind::End }
    }

    fn two_words(&mut self, resource: Resource) -> Parsed<Resource> {
        self.consume();
        self.consume();
        Ok(resource)
    }

    fn role_resource(&mut self) -> Parsed<Resource> {
        self.consume();
        self.role_name().map(Resource::Role)
    }

    fn all_functions(&mut self) -> Parsed<Resource> {
        match self.look(3) {
            TokenKind::Keyword(Keyword::In) => {
                self.expect_keywords(&[Keyword::All, Keyword::Functions, Keyword::In, Keyword::Keyspace])?;
                self.keyspace_name().map(Resource::AllFunctionsIn)
            }
            kind if kind != TokenKind::Dot && ends_resource_name(kind) => {
                self.two_words(Resource::AllFunctions)
            }
            _ => self.no_viable(3),
        }
    }

    fn function_resource(&mut self) -> Parsed<Resource> {
        self.expect_keyword(Keyword::Function)?;
        let name = self.function_name()?;
        Ok(Resource::Function {
            name,
            argument_types: self.type_list()?,
        })
    }

    fn mbean_resource(&mut self, keyword: Keyword) -> Parsed<Resource> {
        self.consume();
        let name = self.string()?;
        if name.is_empty() {
            return self.broken_rule("Empty JMX object name supplied");
        }
        if name == "*:*" {
            return self.broken_rule("Please use ALL MBEANS instead of wildcard pattern");
        }
        if !is_object_name(&name) {
            return self.broken_rule(format!("{name} is not a valid JMX object name"));
        }
        if keyword == Keyword::Mbean {
            return Ok(Resource::Mbean(name));
        }
        if !name.contains(['*', '?']) {
            let message = format!("Plural form used, but non-pattern JMX object name specified ({name})");
            return self.broken_rule(message);
        }
        Ok(Resource::Mbeans(name))
    }
}

fn permission(kind: TokenKind) -> Option<Permission> {
    let TokenKind::Keyword(keyword) = kind else {
        return None;
    };
    Some(match keyword {
        Keyword::Create => Permission::Create,
        Keyword::Alter => Permission::Alter,
        Keyword::Drop => Permission::Drop,
        Keyword::Select => Permission::Select,
        Keyword::Modify => Permission::Modify,
        Keyword::Authorize => Permission::Authorize,
        Keyword::Describe => Permission::Describe,
        Keyword::Execute => Permission::Execute,
        Keyword::Unmask => Permission::Unmask,
        Keyword::SelectMasked => Permission::SelectMasked,
        _ => return None,
    })
}

/// Returns whether the text has the form of a JMX object name: a domain, a colon and properties.
fn is_object_name(name: &str) -> bool {
    let Some((_, properties)) = name.split_once(':') else {
        return false;
    };
    properties.split(',').all(|property| {
        property == "*"
            || property
                .split_once('=')
                .is_some_and(|(key, value)| !key.is_empty() && !value.is_empty())
    })
}

/// The tokens that follow the first part of a table's name in `GRANT`, `REVOKE` and `LIST`.
fn ends_resource_name(kind: TokenKind) -> bool {
    matches!(
        kind,
        TokenKind::Dot
            | TokenKind::Semicolon
            | TokenKind::End
            | TokenKind::Keyword(Keyword::From | Keyword::NoRecursive | Keyword::Of | Keyword::To)
    )
}
