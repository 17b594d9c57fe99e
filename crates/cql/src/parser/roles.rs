//! Roles, users and identities.

use super::cursor::Parser;
use super::rejection::Parsed;
use crate::ast::{
    AddIdentity, AlterRole, CreateRole, DropIdentity, DropRole, GrantRole, ListRoles, RevokeRole, RoleOption,
    RoleSyntax,
};
use crate::lexer::{Keyword, TokenKind};

impl Parser<'_> {
    pub(super) fn create_role(&mut self) -> Parsed<CreateRole> {
        self.expect_keywords(&[Keyword::Create, Keyword::Role])?;
        let if_not_exists = self.if_not_exists()?;
        let role = self.role_name()?;
        let options = self.role_options()?;
        let has = |name| options.iter().any(|option| option.property_name() == Some(name));
        if has("PASSWORD") && has("HASHED_PASSWORD") {
            return self.broken_rule("Options 'password' and 'hashed password' are mutually exclusive");
        }
        Ok(CreateRole {
            syntax: RoleSyntax::Role,
            if_not_exists,
            role,
            options,
        })
    }

    pub(super) fn alter_role(&mut self) -> Parsed<AlterRole> {
        self.expect_keywords(&[Keyword::Alter, Keyword::Role])?;
        let if_exists = self.if_exists()?;
        let role = self.role_name()?;
        Ok(AlterRole {
            syntax: RoleSyntax::Role,
            if_exists,
            role,
            options: self.role_options()?,
        })
    }

    pub(super) fn drop_role(&mut self) -> Parsed<DropRole> {
        self.expect_keywords(&[Keyword::Drop, Keyword::Role])?;
        Ok(DropRole {
            syntax: RoleSyntax::Role,
            if_exists: self.if_exists()?,
            role: self.role_name()?,
        })
    }

    pub(super) fn create_user(&mut self) -> Parsed<CreateRole> {
        self.expect_keywords(&[Keyword::Create, Keyword::User])?;
        let if_not_exists = self.if_not_exists()?;
        let role = self.user_name()?;
        Ok(CreateRole {
            syntax: RoleSyntax::User,
            if_not_exists,
            role,
            options: self.user_options()?,
        })
    }

    pub(super) fn alter_user(&mut self) -> Parsed<AlterRole> {
        self.expect_keywords(&[Keyword::Alter, Keyword::User])?;
        let if_exists = self.if_exists()?;
        let role = self.user_name()?;
        Ok(AlterRole {
            syntax: RoleSyntax::User,
            if_exists,
            role,
            options: self.user_options()?,
        })
    }

    pub(super) fn drop_user(&mut self) -> Parsed<DropRole> {
        self.expect_keywords(&[Keyword::Drop, Keyword::User])?;
        Ok(DropRole {
            syntax: RoleSyntax::User,
            if_exists: self.if_exists()?,
            role: self.user_name()?,
        })
    }

    pub(super) fn grant_role(&mut self) -> Parsed<GrantRole> {
        self.expect_keyword(Keyword::Grant)?;
        let role = self.role_name()?;
        self.expect_keyword(Keyword::To)?;
        Ok(GrantRole {
            role,
            grantee: self.role_name()?,
        })
    }

    pub(super) fn revoke_role(&mut self) -> Parsed<RevokeRole> {
        self.expect_keyword(Keyword::Revoke)?;
        let role = self.role_name()?;
        self.expect_keyword(Keyword::From)?;
        Ok(RevokeRole {
            role,
            revokee: self.role_name()?,
        })
    }

    pub(super) fn list_roles(&mut self) -> Parsed<ListRoles> {
        self.expect_keywords(&[Keyword::List, Keyword::Roles])?;
        let grantee = if self.accept_keyword(Keyword::Of) {
            Some(self.role_name()?)
        } else {
            None
        };
        let recursive = !self.accept_keyword(Keyword::NoRecursive);
        Ok(ListRoles {
            syntax: RoleSyntax::Role,
            grantee,
            recursive,
        })
    }

    pub(super) fn list_users(&mut self) -> Parsed<ListRoles> {
        self.expect_keywords(&[Keyword::List, Keyword::Users])?;
        Ok(ListRoles {
            syntax: RoleSyntax::User,
            grantee: None,
            recursive: true,
        })
    }

    pub(super) fn add_identity(&mut self) -> Parsed<AddIdentity> {
        self.expect_keywords(&[Keyword::Add, Keyword::Identity])?;
        let if_not_exists = self.if_not_exists()?;
        let identity = self.identity()?;
        self.expect_keywords(&[Keyword::To, Keyword::Role])?;
        Ok(AddIdentity {
            if_not_exists,
            identity,
            role: self.identity()?,
        })
    }

    pub(super) fn drop_identity(&mut self) -> Parsed<DropIdentity> {
        self.expect_keywords(&[Keyword::Drop, Keyword::Identity])?;
        Ok(DropIdentity {
            if_exists: self.if_exists()?,
            identity: self.identity()?,
        })
    }

    fn user_name(&mut self) -> Parsed<String> {
        self.unfolded_name(
            "Quoted strings are are not supported for user names and USER is deprecated, please use ROLE",
        )
    }

    fn identity(&mut self) -> Parsed<String> {
        self.unfolded_name("Quoted strings are are not supported for identity")
    }

    /// A name kept in the case it is written in. Double quotes are understood and refused.
    fn unfolded_name(&mut self, refusal: &str) -> Parsed<String> {
        match self.next() {
            TokenKind::Identifier | TokenKind::String => {
                let token = self.consume();
                Ok(self.text_of(token))
            }
            TokenKind::QuotedName => {
                self.consume();
                self.broken_rule(refusal)
            }
            _ => self.no_viable(1),
        }
    }

    /// `(WITH PASSWORD 'x')? (SUPERUSER | NOSUPERUSER)?`
    fn user_options(&mut self) -> Parsed<Vec<RoleOption>> {
        let mut options = Vec::new();
        if self.accept_keyword(Keyword::With) {
            if self.accept_keyword(Keyword::Password) {
                options.push(RoleOption::Password(self.string()?));
            } else if self.next_is_keyword(Keyword::Hashed) {
                self.expect_keywords(&[Keyword::Hashed, Keyword::Password])?;
                options.push(RoleOption::HashedPassword(self.string()?));
            } else {
                return self.no_viable(1);
            }
        }
        if self.accept_keyword(Keyword::Superuser) {
            options.push(RoleOption::Superuser(true));
        } else if self.accept_keyword(Keyword::NoSuperuser) {
            options.push(RoleOption::Superuser(false));
        }
        Ok(options)
    }

    fn role_options(&mut self) -> Parsed<Vec<RoleOption>> {
        let mut options: Vec<RoleOption> = Vec::new();
        if !self.accept_keyword(Keyword::With) {
            return Ok(options);
        }
        loop {
            let option = self.role_option()?;
            if let Some(name) = option.property_name()
                && options.iter().any(|other| other.property_name() == Some(name))
            {
                return self.broken_rule(format!("Multiple definition for property '{name}'"));
            }
            options.push(option);
            if !self.accept_keyword(Keyword::And) {
                break;
            }
        }
        let has = |name| options.iter().any(|option| option.property_name() == Some(name));
        if has("PASSWORD") && has("HASHED_PASSWORD") {
            return self.broken_rule("Options 'password' and 'hashed password' are mutually exclusive");
        }
        Ok(options)
    }

    fn role_option(&mut self) -> Parsed<RoleOption> {
        let TokenKind::Keyword(keyword) = self.next() else {
            return self.no_viable(1);
        };
        match keyword {
            Keyword::Password => {
                self.consume();
                self.expect(TokenKind::Equal)?;
                self.string().map(RoleOption::Password)
            }
            Keyword::Hashed => {
                self.expect_keywords(&[Keyword::Hashed, Keyword::Password])?;
                self.expect(TokenKind::Equal)?;
                self.string().map(RoleOption::HashedPassword)
            }
            Keyword::Options => {
                self.consume();
                self.expect(TokenKind::Equal)?;
                self.property_map().map(RoleOption::Custom)
            }
            Keyword::Superuser => self.boolean_option().map(RoleOption::Superuser),
            Keyword::Login => self.boolean_option().map(RoleOption::Login),
            Keyword::Access => self.access_option(),
            _ => self.no_viable(1),
        }
    }

    /// `KEYWORD = true`
    fn boolean_option(&mut self) -> Parsed<bool> {
        self.consume();
        self.expect(TokenKind::Equal)?;
        let token = self.expect(TokenKind::Boolean)?;
        Ok(token.source(self.statement).eq_ignore_ascii_case("true"))
    }

    /// `ACCESS TO DATACENTERS {...}`, `ACCESS FROM CIDRS {...}` and their `ALL` forms
    fn access_option(&mut self) -> Parsed<RoleOption> {
        let (of_datacenters, plural) = match self.look(2) {
            TokenKind::Keyword(Keyword::To) => (true, Keyword::Datacenters),
            TokenKind::Keyword(Keyword::From) => (false, Keyword::Cidrs),
            _ => return self.no_viable(2),
        };
        match self.look(3) {
            TokenKind::Keyword(Keyword::All) => {
                self.consume();
                self.consume();
                self.consume();
                self.expect_keyword(plural)?;
                Ok(if of_datacenters {
                    RoleOption::AccessToAllDatacenters
                } else {
                    RoleOption::AccessFromAllCidrs
                })
            }
            TokenKind::Keyword(keyword) if keyword == plural => {
                self.consume();
                self.consume();
                self.consume();
                self.expect(TokenKind::LeftBrace)?;
                let names = self.comma_separated(Self::string)?;
                self.expect(TokenKind::RightBrace)?;
                Ok(if of_datacenters {
                    RoleOption::AccessToDatacenters(names)
                } else {
                    RoleOption::AccessFromCidrs(names)
                })
            }
            _ => self.no_viable(3),
        }
    }
}
