//! Internet addresses: the 4 or 16 bytes of the address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// As Java prints it: all eight groups of an IPv6 address, none shortened; an IPv4 address inside one is printed as
/// IPv4. None for any other length.
pub(crate) fn format_inet(bytes: &[u8]) -> Option<String> {
    if let Ok(v4) = <[u8; 4]>::try_from(bytes) {
        return Some(Ipv4Addr::from(v4).to_string());
    }
    let v6 = Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?);
    if let Some(v4) = v6.to_ipv4_mapped() {
        return Some(v4.to_string());
    }
    let groups = v6.segments().map(|group| format!("{group:x}"));
    Some(groups.join(":"))
}

pub fn inet_of(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

pub fn inet_to_address(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(v4) = <[u8; 4]>::try_from(bytes) {
        return Some(IpAddr::from(v4));
    }
    <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from)
}

/// Reads an address; a host's name, which Cassandra would look up, is none.
pub(crate) fn parse_inet(text: &str) -> Option<Vec<u8>> {
    if let Some(v4) = parse_ipv4(text) {
        return Some(v4.to_vec());
    }
    let bare = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(text);
    let v6: Ipv6Addr = bare.parse().ok()?;
    Some(match v6.to_ipv4_mapped() {
        Some(v4) => v4.octets().to_vec(),
        None => v6.octets().to_vec(),
    })
}

/// One to four decimal parts; the last fills the bytes that the others leave, as in BSD's `inet_aton`.
fn parse_ipv4(text: &str) -> Option<[u8; 4]> {
    // Four parts of three digits and three points.
    if text.len() > 15 {
        return None;
    }
    let count = text.split('.').count();
    let mut address = 0_u64;
    for (index, part) in text.split('.').enumerate() {
        if part.is_empty() || !part.bytes().all(|byte| byte.is_ascii_digit()) || count > 4 {
            return None;
        }
        let is_last = index + 1 == count;
        let bits = if is_last { 8 * (4 - index) } else { 8 };
        let value: u64 = part.parse().ok().filter(|value| *value < 1 << bits)?;
        address = address << bits | value;
    }
    u32::try_from(address).ok().map(u32::to_be_bytes)
}
