//! Values of markers.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use helenus_types::CqlType;
use helenus_types::value::varint::varint_of;

use super::random::{Random, mix};

/// Where a marker's values come from. Numbers become values of whatever type the marker has: the number itself, or a
/// text, blob, uuid, ... that stands for it.
#[derive(Clone, Debug)]
pub enum Generator {
    /// 0, 1, 2, ... `of`, and again from 0 (0: without end); the workers share the count.
    Sequence { of: u64 },
    /// Each of `of` numbers alike.
    Uniform { of: u64 },
    /// The first of the numbers most often, by Zipf's law.
    Zipf(Arc<Zipf>),
    /// `hot` of the numbers get `share` of the requests.
    Hotspot { of: u64, hot: u64, share: f64 },
    /// Always this number.
    Constant { number: u64 },
    /// Random letters.
    Text { bytes: usize },
    /// Random bytes.
    Blob { bytes: usize },
    /// A list or set of `count` elements, a map of as many entries.
    Collection { count: usize, element: Box<Generator> },
    /// The time, in steps of `step_ms` before now; as a timestamp, a bigint or a timeuuid.
    TimeSeries { step_ms: u64, of: u64 },
}

/// Zipf's distribution over `0..of`, after Gray et al., "Quickly generating billion-record synthetic databases"
/// (SIGMOD 1994).
#[derive(Debug)]
pub struct Zipf {
    of: u64,
    exponent: f64,
    zeta: f64,
    alpha: f64,
    eta: f64,
    half_power: f64,
}

impl Zipf {
    /// `exponent` below 1; 0.99 is customary.
    pub fn new(of: u64, exponent: f64) -> Arc<Self> {
        let of = of.max(1);
        let sum = |count: u64| (1..=count).map(|rank| (rank as f64).powf(-exponent)).sum::<f64>();
        // Beyond the first million the terms are so alike that their integral stands for them.
        let summed = of.min(1_000_000);
        let rest = 1.0 - exponent;
        let zeta = sum(summed) + ((of as f64).powf(rest) - (summed as f64).powf(rest)) / rest;
        let first_two = sum(of.min(2));
        Arc::new(Zipf {
            of,
            exponent,
            zeta,
            alpha: 1.0 / (1.0 - exponent),
            eta: (1.0 - (2.0 / of as f64).powf(1.0 - exponent)) / (1.0 - first_two / zeta),
            half_power: 0.5_f64.powf(exponent),
        })
    }

    fn draw(&self, random: &mut Random) -> u64 {
        let fraction = random.fraction();
        let scaled = fraction * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < 1.0 + self.half_power {
            return 1;
        }
        let rank = self.of as f64 * (self.eta * fraction - self.eta + 1.0).powf(self.alpha);
        (rank as u64).min(self.of - 1)
    }

    pub fn exponent(&self) -> f64 {
        self.exponent
    }
}

impl Generator {
    /// Appends one value of `data_type`, without its length.
    pub fn write(&self, data_type: &CqlType, random: &mut Random, sequence: u64, out: &mut Vec<u8>) {
        let number = match self {
            Generator::Sequence { of: 0 } => sequence,
            Generator::Sequence { of } => sequence % of,
            Generator::Uniform { of } => random.below(*of),
            Generator::Zipf(zipf) => zipf.draw(random),
            Generator::Hotspot { of, hot, share } => {
                let hot = (*hot).min(*of);
                if random.fraction() < *share {
                    random.below(hot)
                } else {
                    hot + random.below(of - hot)
                }
            }
            Generator::Constant { number } => *number,
            Generator::Text { bytes } => return write_text(random, *bytes, out),
            Generator::Blob { bytes } => return random.fill(out, *bytes),
            Generator::Collection { count, element } => {
                return write_collection(*count, element, data_type, random, sequence, out);
            }
            Generator::TimeSeries { step_ms, of } => {
                let age_ms = random.below((*of).max(1)) * step_ms;
                return write_time(now_ms().saturating_sub(age_ms), data_type, random, out);
            }
        };
        write_number(number, data_type, out);
    }
}

fn write_text(random: &mut Random, bytes: usize, out: &mut Vec<u8>) {
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz012345";
    let start = out.len();
    random.fill(out, bytes);
    for byte in out.iter_mut().skip(start) {
        *byte = LETTERS[usize::from(*byte % 32)];
    }
}

/// The value of a type that stands for a number.
fn write_number(number: u64, data_type: &CqlType, out: &mut Vec<u8>) {
    match data_type {
        CqlType::Int | CqlType::Date => out.extend_from_slice(&(number as u32).to_be_bytes()),
        CqlType::Smallint => out.extend_from_slice(&(number as u16).to_be_bytes()),
        CqlType::Tinyint => out.push(number as u8),
        CqlType::Boolean => out.push((number & 1) as u8),
        CqlType::Float => out.extend_from_slice(&(number as f32).to_be_bytes()),
        CqlType::Double => out.extend_from_slice(&(number as f64).to_be_bytes()),
        CqlType::Text | CqlType::Ascii => out.extend_from_slice(format!("key{number:010}").as_bytes()),
        CqlType::Uuid | CqlType::Timeuuid => out.extend_from_slice(&uuid_of(number, data_type)),
        CqlType::Varint => out.extend_from_slice(&varint_of(number as i64)),
        CqlType::Inet => out.extend_from_slice(&(number as u32).to_be_bytes()),
        _ => out.extend_from_slice(&number.to_be_bytes()),
    }
}

/// Makes a UUID of version 4, or of version 1 for a timeuuid.
fn uuid_of(number: u64, data_type: &CqlType) -> [u8; 16] {
    let version = if *data_type == CqlType::Timeuuid {
        0x1000
    } else {
        0x4000
    };
    let high = (mix(number) & !0xf000) | version;
    let low = (mix(!number) >> 2) | (1 << 63);
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&high.to_be_bytes());
    bytes[8..].copy_from_slice(&low.to_be_bytes());
    bytes
}

fn write_time(time_ms: u64, data_type: &CqlType, random: &mut Random, out: &mut Vec<u8>) {
    if *data_type == CqlType::Timeuuid {
        /// From 1582-10-15, where timeuuids begin, to 1970, in their ticks of 100 ns.
        const TICKS_BEFORE_1970: i64 = 0x01b2_1dd2_1381_4000;
        let ticks = TICKS_BEFORE_1970 + time_ms as i64 * 10_000;
        let clock_and_node = (random.number() >> 2) | (1 << 63);
        let timeuuid = helenus_types::value::timeuuid::timeuuid_of(ticks, clock_and_node);
        out.extend_from_slice(&timeuuid);
        return;
    }
    write_number(time_ms, data_type, out);
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

fn write_collection(
    count: usize,
    element: &Generator,
    data_type: &CqlType,
    random: &mut Random,
    sequence: u64,
    out: &mut Vec<u8>,
) {
    let parts: &[&CqlType] = match data_type {
        CqlType::List { element, .. } | CqlType::Set { element, .. } => &[element],
        CqlType::Map { key, value, .. } => &[key, value],
        other => return element.write(other, random, sequence, out),
    };
    out.extend_from_slice(&(count as i32).to_be_bytes());
    for index in 0..count {
        for (at, part) in parts.iter().enumerate() {
            let length_at = out.len();
            out.extend_from_slice(&[0; 4]);
            // Keys and elements of sets are to differ from each other.
            if at == 0 && parts.len() == 2 {
                write_number(index as u64, part, out);
            } else {
                element.write(part, random, sequence.wrapping_add(index as u64), out);
            }
            let length = (out.len() - length_at - 4) as i32;
            if let Some(place) = out.get_mut(length_at..length_at + 4) {
                place.copy_from_slice(&length.to_be_bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_valid_for_every_type() {
        let mut random = Random::new(1);
        let types = [
            CqlType::Int,
            CqlType::Bigint,
            CqlType::Text,
            CqlType::Blob,
            CqlType::Uuid,
            CqlType::Timeuuid,
            CqlType::Timestamp,
            CqlType::Boolean,
            CqlType::Double,
            CqlType::Varint,
            CqlType::Inet,
        ];
        for data_type in &types {
            for number in [0, 1, 255, u64::MAX] {
                let mut out = Vec::new();
                Generator::Constant { number }.write(data_type, &mut random, 0, &mut out);
                data_type.validate(&out).unwrap();
            }
        }
        let collection = Generator::Collection {
            count: 3,
            element: Box::new(Generator::Text { bytes: 5 }),
        };
        let map = CqlType::map(CqlType::Int, CqlType::Text, true);
        let mut out = Vec::new();
        collection.write(&map, &mut random, 0, &mut out);
        map.validate(&out).unwrap();
    }

    #[test]
    fn zipf_prefers_the_first_and_stays_in_bounds() {
        let zipf = Zipf::new(1000, 0.99);
        let mut random = Random::new(7);
        let mut counts = vec![0_u32; 1000];
        for _ in 0..100_000 {
            counts[zipf.draw(&mut random) as usize] += 1;
        }
        // 1 / zeta(1000, 0.99) = 0.129 of all, the second half as much.
        assert!((12_000..14_000).contains(&counts[0]), "{}", counts[0]);
        assert!((5_500..7_500).contains(&counts[1]), "{}", counts[1]);
        assert!(counts[999] < 100);
    }

    #[test]
    fn a_hotspot_gets_its_share() {
        let hotspot = Generator::Hotspot {
            of: 100,
            hot: 10,
            share: 0.9,
        };
        let mut random = Random::new(3);
        let hot = (0..10_000)
            .filter(|_| {
                let mut out = Vec::new();
                hotspot.write(&CqlType::Bigint, &mut random, 0, &mut out);
                out[7] < 10
            })
            .count();
        assert!((8_800..9_200).contains(&hot), "{hot}");
    }
}
