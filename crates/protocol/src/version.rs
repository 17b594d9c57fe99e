//! Protocol versions, and how a version nobody speaks is refused so that drivers step down.

use std::fmt;

/// A version of the native protocol that this server speaks.
///
/// v6 is Cassandra 5.0's beta: its bytes are those of v5, and it is spoken only with [`EnvelopeFlags::USE_BETA`].
///
/// [`EnvelopeFlags::USE_BETA`]: crate::frame::EnvelopeFlags::USE_BETA
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum ProtocolVersion {
    V3 = 3,
    V4 = 4,
    V5 = 5,
    V6 = 6,
}

impl ProtocolVersion {
    /// Every version spoken here, oldest first.
    pub const ALL: [ProtocolVersion; 4] = [Self::V3, Self::V4, Self::V5, Self::V6];

    /// The newest version that is not a beta; replies to versions nobody knows carry it.
    pub const CURRENT: ProtocolVersion = Self::V5;

    /// The version with this number (the direction bit taken off), if it is spoken here.
    #[inline]
    pub fn from_number(number: u8) -> Option<Self> {
        match number {
            3 => Some(Self::V3),
            4 => Some(Self::V4),
            5 => Some(Self::V5),
            6 => Some(Self::V6),
            _ => None,
        }
    }

    #[inline]
    pub fn number(self) -> u8 {
        self as u8
    }

    #[inline]
    pub(crate) fn is_beta(self) -> bool {
        self == Self::V6
    }

    /// Returns whether envelopes travel inside checksummed frames once STARTUP is answered (v5 and later).
    #[inline]
    pub fn has_checksummed_frames(self) -> bool {
        self >= Self::V5
    }

    /// The form the SUPPORTED message lists: `5/v5`, `6/v6-beta`.
    pub fn description(self) -> &'static str {
        match self {
            Self::V3 => "3/v3",
            Self::V4 => "4/v4",
            Self::V5 => "5/v5",
            Self::V6 => "6/v6-beta",
        }
    }

    /// The version number in the header of the reply to an unsupported version.
    ///
    /// v1 and v2 are answered in kind, because those clients cannot read a newer header. Anything else is answered
    /// with the current version: drivers take the next step down from the version of the reply.
    pub fn reply_number_for_unsupported(number: u8) -> u8 {
        match number {
            1 | 2 => number,
            _ => Self::CURRENT.number(),
        }
    }
}

impl fmt::Display for ProtocolVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.description())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_round_trip_and_unknown_ones_are_refused() {
        for number in 0..=255u8 {
            match ProtocolVersion::from_number(number) {
                Some(version) => assert_eq!(version.number(), number),
                None => assert!(!(3..=6).contains(&number)),
            }
        }
    }

    #[test]
    fn old_versions_are_answered_in_kind_and_unknown_ones_with_the_current_version() {
        assert_eq!(ProtocolVersion::reply_number_for_unsupported(1), 1);
        assert_eq!(ProtocolVersion::reply_number_for_unsupported(2), 2);
        assert_eq!(ProtocolVersion::reply_number_for_unsupported(66), 5);
        assert_eq!(ProtocolVersion::reply_number_for_unsupported(0), 5);
    }
}
