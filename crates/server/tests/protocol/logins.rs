//! Logins where clients are asked for a password: who may log in, what role statements do, and what is refused.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use helenus_node::{Authenticator, CommitlogSync, NodeOptions};
use helenus_protocol::{ErrorCode, Opcode, ProtocolVersion};
use helenus_server::Server;
use helenus_transport::ConnectionLimits;
use helenus_vfs::{Disk, MemoryDisk};

use crate::support::{
    Client, Reply, each_service_asking_for_passwords, node_options, serve, serve_asking_for, serve_node, stop,
};

const DONE: Reply = Reply::Message(Opcode::Result);

fn invalid(text: &str) -> Reply {
    Reply::Error(ErrorCode::Invalid, text.to_owned())
}

fn unauthorized(text: &str) -> Reply {
    Reply::Error(ErrorCode::Unauthorized, text.to_owned())
}

fn incorrect(user: &str) -> Reply {
    Reply::Error(
        ErrorCode::BadCredentials,
        format!("Provided username {user} and/or password are incorrect"),
    )
}

#[test]
fn a_new_node_knows_cassandra_and_lets_nobody_else_in() {
    let server = serve_asking_for(Authenticator::Password);
    for version in [ProtocolVersion::V3, ProtocolVersion::V4, ProtocolVersion::V5] {
        let mut client = Client::start(server.address, version);
        assert_eq!(client.log_in("nobody", "cassandra"), incorrect("nobody"));
        assert_eq!(client.log_in("cassandra", "wrong"), incorrect("cassandra"));
        // Twice the same wrong password: remembered, and still wrong.
        assert_eq!(client.log_in("cassandra", "wrong"), incorrect("cassandra"));
        assert_eq!(
            client.log_in("cassandra", "cassandra"),
            Reply::Message(Opcode::AuthSuccess)
        );
        assert_eq!(client.ask("SELECT release_version FROM system.local"), DONE);
    }
    stop(server);
}

#[test]
fn before_the_login_nothing_else_is_understood() {
    for server in each_service_asking_for_passwords() {
        let mut client = Client::start(server.address, ProtocolVersion::V4);
        assert_eq!(
            client.ask("SELECT release_version FROM system.local"),
            Reply::Error(
                ErrorCode::ProtocolError,
                "Unexpected message QUERY, expecting SASL_RESPONSE".to_owned()
            )
        );
        stop(server);
    }
}

#[test]
fn what_is_sent_behind_a_login_waits_for_it() {
    for server in each_service_asking_for_passwords() {
        let mut client = Client::start(server.address, ProtocolVersion::V4);
        let mut bytes = client.auth_response("cassandra", "cassandra");
        bytes.extend(client.query("SELECT release_version FROM system.local"));
        client.send(&bytes);
        assert_eq!(client.reply(), Reply::Message(Opcode::AuthSuccess));
        assert_eq!(client.reply(), DONE);
        stop(server);
    }
}

#[test]
fn roles_are_made_changed_granted_listed_and_dropped() {
    let server = serve_asking_for(Authenticator::Password);
    let mut root = Client::log_in_as(server.address, "cassandra", "cassandra");
    for (statement, reply) in [
        ("CREATE ROLE app WITH PASSWORD = 'secret' AND LOGIN = true", DONE),
        ("CREATE ROLE app", invalid("app already exists")),
        ("CREATE ROLE IF NOT EXISTS app", DONE),
        ("CREATE ROLE readers", DONE),
        ("CREATE USER old WITH PASSWORD 'x' SUPERUSER", DONE),
        ("GRANT readers TO app", DONE),
        ("GRANT readers TO app", invalid("app is a member of readers")),
        ("GRANT app TO readers", invalid("app is a member of readers")),
        ("GRANT nothing TO app", invalid("nothing doesn't exist")),
        (
            "ALTER ROLE nobody WITH LOGIN = true",
            invalid("Role nobody doesn't exist"),
        ),
        ("ALTER ROLE IF EXISTS nobody WITH LOGIN = true", DONE),
        ("ALTER ROLE app", invalid("ALTER [ROLE|USER] can't be empty")),
        (
            "ALTER ROLE app WITH PASSWORD = 'a' AND HASHED PASSWORD = 'b'",
            Reply::Error(
                ErrorCode::SyntaxError,
                "Options 'password' and 'hashed password' are mutually exclusive".to_owned(),
            ),
        ),
        ("LIST ROLES OF nobody", invalid("<role nobody> doesn't exist")),
        ("DROP ROLE nobody", invalid("nobody doesn't exist")),
        (
            "DROP ROLE cassandra",
            invalid("Cannot DROP primary role for current login"),
        ),
        (
            "CREATE ROLE dc WITH ACCESS TO DATACENTERS {'nope'}",
            invalid("Invalid value(s) for DATACENTERS '[nope]',All values must be valid datacenters"),
        ),
        (
            "ALTER ROLE app WITH ACCESS TO ALL DATACENTERS",
            invalid("ACCESS TO DATACENTERS operations not supported by AllowAllNetworkAuthorizer"),
        ),
        (
            "GRANT SELECT ON ALL KEYSPACES TO app",
            Reply::Error(
                ErrorCode::ServerError,
                "java.lang.UnsupportedOperationException: GRANT operation is not supported by AllowAllAuthorizer"
                    .to_owned(),
            ),
        ),
        (
            "GRANT SELECT ON KEYSPACE nope TO app",
            invalid("Resource <keyspace nope> doesn't exist"),
        ),
        (
            "GRANT SELECT ON TABLE system.nope TO app",
            invalid("Resource <table system.nope> doesn't exist"),
        ),
        (
            "LIST ALL PERMISSIONS OF app",
            invalid("LIST PERMISSIONS operation is not supported by AllowAllAuthorizer"),
        ),
        ("LIST ALL PERMISSIONS OF nobody", invalid("<role nobody> doesn't exist")),
        (
            "CREATE ROLE hashed WITH HASHED PASSWORD = 'nonsense'",
            invalid("Invalid hashed password value. Please use jBcrypt."),
        ),
        (
            "ALTER ROLE app WITH HASHED PASSWORD = '$2a$31$qEENTod6wS/HAQeuPFaiBOJRwQbCXUrEaKr8Lf8bwFQtta53oNySK'",
            invalid("Invalid hashed password value: its cost is 31, and at most 14 is checked"),
        ),
    ] {
        assert_eq!(root.ask(statement), reply, "{statement}");
    }
    let names = |rows: Vec<Vec<String>>| rows.into_iter().map(|row| row[0].clone()).collect::<Vec<_>>();
    assert_eq!(
        names(root.ask_rows("LIST ROLES")),
        ["app", "cassandra", "old", "readers"]
    );
    assert_eq!(names(root.ask_rows("LIST ROLES OF app")), ["app", "readers"]);
    assert_eq!(names(root.ask_rows("LIST USERS")), ["app", "cassandra", "old"]);

    let mut app = Client::log_in_as(server.address, "app", "secret");
    let denied = [
        (
            "CREATE ROLE boss WITH SUPERUSER = true",
            "Only superusers can create a role with superuser status",
        ),
        (
            "DROP ROLE cassandra",
            "Only superusers can drop a role with superuser status",
        ),
        (
            "ALTER ROLE app WITH SUPERUSER = true",
            "You aren't allowed to alter your own superuser status or that of a role granted to you",
        ),
        (
            "ALTER ROLE cassandra WITH SUPERUSER = false",
            "Only superusers are allowed to alter superuser status",
        ),
        (
            "ALTER ROLE app WITH LOGIN = false",
            "You aren't allowed to alter LOGIN",
        ),
    ];
    for (statement, message) in denied {
        assert_eq!(app.ask(statement), unauthorized(message), "{statement}");
    }
    assert_eq!(app.ask("ALTER ROLE app WITH PASSWORD = 'other'"), DONE);

    // The old password was remembered as right; it is not any more.
    let mut client = Client::start(server.address, ProtocolVersion::V4);
    assert_eq!(client.log_in("app", "secret"), incorrect("app"));
    assert_eq!(client.log_in("app", "other"), Reply::Message(Opcode::AuthSuccess));
    assert_eq!(root.ask("ALTER ROLE app WITH LOGIN = false"), DONE);
    let mut client = Client::start(server.address, ProtocolVersion::V4);
    assert_eq!(
        client.log_in("app", "other"),
        Reply::Error(
            ErrorCode::BadCredentials,
            "app is not permitted to log in".to_owned()
        )
    );
    assert_eq!(root.ask("REVOKE readers FROM app"), DONE);
    assert_eq!(
        root.ask("REVOKE readers FROM app"),
        invalid("app is not a member of readers")
    );
    assert_eq!(root.ask("GRANT readers TO app"), DONE);
    assert_eq!(root.ask("DROP ROLE readers"), DONE);
    assert_eq!(names(root.ask_rows("LIST ROLES OF app")), ["app"]);
    stop(server);
}

#[test]
fn where_nobody_is_asked_role_statements_need_a_login() {
    let server = serve();
    let mut client = Client::open(server.address, ProtocolVersion::V4);
    let anonymous = unauthorized("You have to be logged in and not anonymous to perform this request");
    for (statement, reply) in [
        ("CREATE ROLE app", anonymous),
        (
            "CREATE ROLE app WITH PASSWORD = 'x'",
            invalid("org.apache.cassandra.auth.CassandraRoleManager doesn't support PASSWORD"),
        ),
        (
            "CREATE ROLE app WITH SUPERUSER = true",
            unauthorized("Only superusers can create a role with superuser status"),
        ),
    ] {
        assert_eq!(client.ask(statement), reply, "{statement}");
    }
    stop(server);
}

/// Data folder that a test changes while no server runs.
struct Folder {
    disk: Arc<MemoryDisk>,
    node: NodeOptions,
}

impl Folder {
    fn new() -> Folder {
        let disk = Arc::new(MemoryDisk::new());
        let node = NodeOptions {
            disk: disk.clone(),
            ..node_options(Authenticator::Password)
        };
        Folder { disk, node }
    }

    fn serve(&self) -> Server {
        serve_node(self.node.clone(), ConnectionLimits::default(), false)
    }

    /// A folder whose only superuser is `admin`.
    fn with_admin() -> Folder {
        let folder = Folder::new();
        let server = folder.serve();
        let mut root = Client::log_in_as(server.address, "cassandra", "cassandra");
        let create = "CREATE ROLE admin WITH PASSWORD = 'secret' AND LOGIN = true AND SUPERUSER = true";
        assert_eq!(root.ask(create), DONE);
        let mut admin = Client::log_in_as(server.address, "admin", "secret");
        assert_eq!(admin.ask("DROP ROLE cassandra"), DONE);
        stop(server);
        folder
    }

    fn statistics_of_roles(&self) -> Vec<PathBuf> {
        let keyspace = self.node.data_folder.join("data/system_auth");
        let names = |folder: &Path| self.disk.list(folder).unwrap();
        let is_of_roles = |name: &str| name.starts_with("roles-");
        let tables = names(&keyspace)
            .into_iter()
            .filter(|entry| is_of_roles(&entry.name));
        let folders = tables.map(|entry| keyspace.join(entry.name));
        folders
            .flat_map(|folder| {
                let files = names(&folder)
                    .into_iter()
                    .filter(|file| file.name.ends_with("-Statistics.db"));
                files.map(move |file| folder.join(file.name)).collect::<Vec<_>>()
            })
            .collect()
    }
}

/// One flipped bit in an SSTable of the roles, and `cassandra` with the password that everybody knows was a superuser.
#[test]
fn damaged_roles_let_nobody_in() {
    let folder = Folder::with_admin();
    let statistics = folder.statistics_of_roles();
    assert!(!statistics.is_empty(), "a stop flushes the roles");
    for path in statistics {
        folder.disk.open_writable(&path).unwrap().set_length(5).unwrap();
    }
    let server = folder.serve();
    for (user, password) in [("cassandra", "cassandra"), ("admin", "secret")] {
        let mut client = Client::start(server.address, ProtocolVersion::V4);
        let Reply::Error(ErrorCode::ServerError, message) = client.log_in(user, password) else {
            panic!("{user} was let in or told something else");
        };
        assert!(message.contains("`helenus sstable refused`"), "{message}");
    }
    stop(server);
}

/// A user who could log in truncated the roles, and was a superuser with the password that everybody knows.
#[test]
fn truncated_roles_do_not_bring_the_default_role_back() {
    let folder = Folder::with_admin();
    let server = folder.serve();
    let mut admin = Client::log_in_as(server.address, "admin", "secret");
    let create = "CREATE ROLE app WITH PASSWORD = 'secret' AND LOGIN = true";
    assert_eq!(admin.ask(create), DONE);
    let mut app = Client::log_in_as(server.address, "app", "secret");
    assert_eq!(
        app.ask("TRUNCATE system_auth.roles"),
        unauthorized("User app has no MODIFY permission on <table system_auth.roles> or any of its parents")
    );
    assert_eq!(admin.ask("TRUNCATE system_auth.roles"), DONE);
    let default_is_refused = |server: &Server| {
        let mut client = Client::start(server.address, ProtocolVersion::V4);
        assert_eq!(client.log_in("cassandra", "cassandra"), incorrect("cassandra"));
    };
    default_is_refused(&server);
    stop(server);
    let server = folder.serve();
    default_is_refused(&server);
    stop(server);
}

/// The mark says that the role was made: it must not be on the disk before the role is.
#[test]
fn the_default_role_outlives_a_periodic_log() {
    let mut folder = Folder::new();
    folder.node.commitlog_sync = CommitlogSync::Periodic {
        period: std::time::Duration::from_secs(3_600),
    };
    let server = folder.serve();
    Client::log_in_as(server.address, "cassandra", "cassandra");
    assert!(!folder.statistics_of_roles().is_empty());
    let mark = folder.node.data_folder.join("default-role-made");
    assert!(folder.disk.exists(&mark).unwrap());
    stop(server);
}

/// A folder of a release that made no mark has roles of its own.
#[test]
fn a_folder_without_the_mark_keeps_its_roles() {
    let folder = Folder::with_admin();
    let mark = folder.node.data_folder.join("default-role-made");
    folder.disk.remove(&mark).unwrap();
    let server = folder.serve();
    let mut client = Client::start(server.address, ProtocolVersion::V4);
    assert_eq!(client.log_in("cassandra", "cassandra"), incorrect("cassandra"));
    Client::log_in_as(server.address, "admin", "secret");
    assert!(folder.disk.exists(&mark).unwrap());
    stop(server);
}
