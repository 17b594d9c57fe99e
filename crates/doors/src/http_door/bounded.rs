//! Arrays and objects of JSON that end after as many members as the native protocol can count: what is more is not read, and
//! takes no memory.

use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use crate::bounds::VALUES_MAX;

/// An array.
#[derive(Debug)]
pub struct Bounded<T>(pub Vec<T>);

/// An object; the last member of a name is the one that counts.
#[derive(Debug)]
pub struct BoundedMap<T>(pub HashMap<String, T>);

impl<T> Default for Bounded<T> {
    fn default() -> Self {
        Bounded(Vec::new())
    }
}

struct Members<T>(PhantomData<T>);

fn too_many<E: Error>() -> E {
    E::custom(format_args!("there are more than {VALUES_MAX} of them"))
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for Members<Bounded<T>> {
    type Value = Bounded<T>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Bounded<T>, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = array.next_element()? {
            if members.len() >= VALUES_MAX {
                return Err(too_many());
            }
            members.push(member);
        }
        Ok(Bounded(members))
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for Members<BoundedMap<T>> {
    type Value = BoundedMap<T>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<BoundedMap<T>, A::Error> {
        let mut members = HashMap::new();
        while let Some((name, member)) = object.next_entry()? {
            if members.len() >= VALUES_MAX {
                return Err(too_many());
            }
            members.insert(name, member);
        }
        Ok(BoundedMap(members))
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Bounded<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Members::<Self>(PhantomData))
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for BoundedMap<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Members::<Self>(PhantomData))
    }
}
