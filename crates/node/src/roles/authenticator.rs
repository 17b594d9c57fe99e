//! How clients log in.

/// How clients prove who they are: Cassandra's `authenticator`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Authenticator {
    /// `AllowAllAuthenticator`: nobody is asked, everybody is anonymous.
    #[default]
    AllowAll,
    /// `PasswordAuthenticator`: user and password by SASL PLAIN.
    Password,
}

impl Authenticator {
    /// The class that drivers are told; `None` if clients are not asked.
    pub fn class(self) -> Option<&'static str> {
        match self {
            Authenticator::AllowAll => None,
            Authenticator::Password => Some("org.apache.cassandra.auth.PasswordAuthenticator"),
        }
    }
}
