//! `system_views.clients`: who is connected, on whatever shard.

use helenus_node::Authenticator;
use helenus_protocol::ProtocolVersion;

use crate::support::{Client, Reply, serve, serve_asking_for, stop};

const CLIENTS: &str = "SELECT username, keyspace_name, connection_stage, client_options['CQL_VERSION'] \
     FROM system_views.clients";

/// The table was empty, and whoever looked for the application that overloads a node found nobody.
#[test]
fn each_connection_is_a_row_until_it_is_closed() {
    let server = serve();
    let mut clients: Vec<Client> = (0..5)
        .map(|_| Client::open(server.address, ProtocolVersion::V5))
        .collect();
    assert_eq!(
        clients[0].ask("USE system"),
        Reply::Message(helenus_protocol::Opcode::Result)
    );
    let mut rows = clients[1].ask_rows(CLIENTS);
    rows.sort();
    let mut expected = vec![["anonymous", "", "ready", "3.0.0"]; 4];
    expected.push(["anonymous", "system", "ready", "3.0.0"]);
    assert_eq!(rows, expected);

    // Closing is seen by its shard a little later.
    clients.truncate(2);
    while clients[1].ask_rows(CLIENTS).len() != 2 {}
    drop(clients);
    stop(server);
}

#[test]
fn a_client_that_has_not_logged_in_is_shown_as_authenticating() {
    let server = serve_asking_for(Authenticator::Password);
    let mut client = Client::log_in_as(server.address, "cassandra", "cassandra");
    let waiting = Client::start(server.address, ProtocolVersion::V5);
    let mut rows = client.ask_rows("SELECT username, connection_stage FROM system_views.clients");
    rows.sort();
    assert_eq!(rows, [["anonymous", "authenticating"], ["cassandra", "ready"]]);
    drop(waiting);
    stop(server);
}
