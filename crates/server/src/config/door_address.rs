//! Where the doors beside CQL are, or that there are none.

use std::net::SocketAddr;
use std::str::FromStr;

use serde::Deserialize;

/// An address with a port, or `off`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum DoorAddress {
    /// There.
    At(SocketAddr),
    /// Nowhere.
    Off,
}

/// It is neither.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is neither an address with a port, such as 127.0.0.1:8090, nor off")]
pub struct DoorAddressError(String);

impl FromStr for DoorAddress {
    type Err = DoorAddressError;

    fn from_str(text: &str) -> Result<Self, DoorAddressError> {
        match text {
            "off" => Ok(DoorAddress::Off),
            address => {
                let address = address.parse().map_err(|_| DoorAddressError(text.to_owned()))?;
                Ok(DoorAddress::At(address))
            }
        }
    }
}

impl TryFrom<String> for DoorAddress {
    type Error = DoorAddressError;

    fn try_from(text: String) -> Result<Self, DoorAddressError> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doors_are_somewhere_or_off() {
        assert_eq!("off".parse(), Ok(DoorAddress::Off));
        assert_eq!(
            "[::1]:80".parse(),
            Ok(DoorAddress::At("[::1]:80".parse().unwrap()))
        );
        assert!("127.0.0.1".parse::<DoorAddress>().is_err());
    }
}
