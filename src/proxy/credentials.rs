//! What is read from files of certificates, keys and users: at the start, and anew on request.

use super::auth_users::Users;
use super::tls::FileError;
use super::tls_connect::Connector;
use super::tls_listen::Acceptor;
use super::{Config, Reloader};
use std::sync::{Arc, PoisonError};

/// The contents of the files, consistent with each other. A connection keeps those it began with.
pub(crate) struct Credentials {
    /// TLS towards clients.
    pub acceptor: Acceptor,
    /// TLS towards the server.
    pub connector: Connector,
    /// Whom the proxy authenticates itself.
    pub users: Option<Users>,
    /// Of names that nobody has, the same must be asked after the files were read again.
    mock_key: [u8; 32],
}

impl Credentials {
    /// Reads all files that `config` names. `mock_key`: a secret of this process.
    pub fn load(config: &Config, mock_key: [u8; 32]) -> Result<Self, FileError> {
        let users = config.auth.as_ref().map(|settings| Users::load(settings, mock_key));
        Ok(Self {
            acceptor: Acceptor::load(&config.client_tls)?,
            connector: Connector::load(&config.upstream_tls)?,
            users: users.transpose()?,
            mock_key,
        })
    }
}

impl Reloader {
    /// Reads the files of the configuration again. What they hold is for new connections; those that are open
    /// keep what they have.
    ///
    /// # Errors
    /// [`FileError`] when a file cannot be used: then everything stays as it was.
    pub fn reload_credentials(&self) -> Result<(), FileError> {
        let fresh = Arc::new(Credentials::load(&self.0.config, self.0.credentials().mock_key)?);
        *self.0.credentials.write().unwrap_or_else(PoisonError::into_inner) = fresh;
        Ok(())
    }
}
