//! Roles, users, identities and permissions.

use super::Grammar;

const PERMISSIONS: [&str; 10] = [
    "ALL",
    "ALL PERMISSIONS",
    "CREATE PERMISSION",
    "ALTER",
    "DROP",
    "SELECT",
    "MODIFY, SELECT",
    "AUTHORIZE",
    "DESCRIBE",
    "EXECUTE",
];

impl Grammar<'_> {
    pub(super) fn access(&self) -> String {
        let (role, other) = (self.word(), self.word());
        match self.chance.below(20) {
            0 | 1 => format!(
                "CREATE ROLE {}{role}{}",
                self.if_not_exists(),
                self.role_options()
            ),
            2 => format!("ALTER ROLE {}{role}{}", self.if_exists(), self.role_options()),
            3 => format!("DROP ROLE {}{role}", self.if_exists()),
            4 => format!(
                "CREATE USER {}u{} WITH PASSWORD 'x' NOSUPERUSER",
                self.if_not_exists(),
                self.chance.below(3)
            ),
            5 => format!("ALTER USER u{} SUPERUSER", self.chance.below(3)),
            6 => format!("DROP USER {}u{}", self.if_exists(), self.chance.below(3)),
            7 => format!("GRANT {role} TO {other}"),
            8 => format!("REVOKE {role} FROM {other}"),
            9 => format!(
                "LIST ROLES{}{}",
                self.sometimes(2, &format!(" OF {role}")),
                self.sometimes(3, " NORECURSIVE")
            ),
            10 => "LIST USERS".to_owned(),
            11..14 => format!(
                "GRANT {} ON {} TO {role}",
                self.one_of(&PERMISSIONS),
                self.resource()
            ),
            14 | 15 => format!(
                "REVOKE {} ON {} FROM {role}",
                self.one_of(&PERMISSIONS),
                self.resource()
            ),
            16 | 17 => format!(
                "LIST {}{}{}",
                self.one_of(&PERMISSIONS),
                self.sometimes(2, &format!(" ON {}", self.resource())),
                self.sometimes(2, &format!(" OF {role}"))
            ),
            18 => format!("ADD IDENTITY {}'id' TO ROLE {role}", self.if_not_exists()),
            _ => format!("DROP IDENTITY {}'id'", self.if_exists()),
        }
    }

    fn role_options(&self) -> String {
        let options = [
            "PASSWORD = 'x'",
            "HASHED PASSWORD = 'x'",
            "LOGIN = true",
            "SUPERUSER = false",
            "OPTIONS = {'a': 'b'}",
            "ACCESS TO ALL DATACENTERS",
            "ACCESS TO DATACENTERS {'datacenter1'}",
            "ACCESS FROM ALL CIDRS",
        ];
        self.sometimes(
            2,
            &format!(
                " WITH {}",
                self.several(2, " AND ", || self.one_of(&options).to_owned())
            ),
        )
    }

    fn resource(&self) -> String {
        match self.chance.below(10) {
            0 => "ALL KEYSPACES".to_owned(),
            1 => format!("KEYSPACE {}", self.keyspace_name()),
            2 => format!("ALL TABLES IN KEYSPACE {}", self.keyspace_name()),
            3 => "ALL ROLES".to_owned(),
            4 => format!("ROLE {}", self.word()),
            5 => "ALL FUNCTIONS".to_owned(),
            6 => format!("FUNCTION {}({})", self.new_name(), self.type_name(1)),
            7 => "ALL MBEANS".to_owned(),
            8 => "MBEAN 'a:type=b'".to_owned(),
            _ => format!("TABLE {}", self.table_name()),
        }
    }
}
