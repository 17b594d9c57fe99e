//! A table of which the server's memory holds a part only.

use helenus_protocol::request::{BindValues, QueryParameters, Value, write_execute};
use helenus_protocol::{Consistency, Opcode};

use super::line::Random;
use super::wire::{VERSION, WireClient, WireError, frame};

pub const SELECT: &str = "SELECT v FROM goodput.cold WHERE p = ?";

/// Bytes of a value, which no compression makes smaller.
const VALUE_BYTES: usize = 1_000;

/// Writes so many bytes of values, each partition one. How many partitions those are.
pub fn fill(client: &mut WireClient, bytes: u64) -> Result<u64, WireError> {
    client.query("CREATE TABLE IF NOT EXISTS goodput.cold (p bigint PRIMARY KEY, v blob)")?;
    let id = client.prepare("INSERT INTO goodput.cold (p, v) VALUES (?, ?)")?;
    let keys = partitions(bytes);
    let mut random = Random::new(1);
    let mut failure = None;
    let inserts = (0..keys).map_while(|key| match insert(&id, key, &mut random) {
        Ok(frame) => Some(frame),
        Err(error) => {
            failure = Some(error);
            None
        }
    });
    client.fill(inserts)?;
    failure.map_or(Ok(keys), Err)
}

fn partitions(bytes: u64) -> u64 {
    // Requests draw their keys by 32 random bits.
    (bytes / VALUE_BYTES as u64).clamp(1, u64::from(u32::MAX))
}

fn insert(id: &[u8], key: u64, random: &mut Random) -> Result<Vec<u8>, WireError> {
    let value: Vec<u8> = (0..VALUE_BYTES / 8)
        .flat_map(|_| random.next().to_be_bytes())
        .collect();
    let key = key.to_be_bytes();
    let bound = [Value::Bytes(&key), Value::Bytes(&value)];
    let parameters = QueryParameters::new(Consistency::One);
    frame(Opcode::Execute, |out| {
        write_execute(out, VERSION, id, &[], &parameters, BindValues::Positional(&bound));
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_bytes_are_so_many_partitions_whose_values_differ() {
        assert_eq!(partitions(2_500_000_000), 2_500_000);
        assert_eq!(partitions(0), 1);
        let mut random = Random::new(1);
        let (one, other) = (
            insert(&[1; 16], 7, &mut random).unwrap(),
            insert(&[1; 16], 7, &mut random).unwrap(),
        );
        assert_eq!(one.len(), other.len());
        assert!(one.len() > VALUE_BYTES && one != other);
    }
}
