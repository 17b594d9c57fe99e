//! Collections, tuples, vectors and user types, with nulls and unset values among them.

use std::collections::{BTreeMap, BTreeSet};

use scylla::client::session::Session;
use scylla::value::{MaybeUnset, Unset};
use scylla::{DeserializeValue, SerializeValue};
use uuid::Uuid;

use crate::{Outcome, equal, query};

type Nested = (
    Vec<i32>,
    BTreeSet<String>,
    BTreeMap<String, f64>,
    Vec<BTreeSet<i32>>,
    (Option<i32>, Option<String>, Option<Uuid>),
    Vec<f32>,
    Vec<String>,
);

pub async fn collections(session: &Session) -> Outcome {
    session
        .query_unpaged(
            "CREATE TABLE nested (id int PRIMARY KEY, l list<int>, s set<text>, m map<text, double>, \
             fl frozen<list<frozen<set<int>>>>, t tuple<int, text, uuid>, v vector<float, 3>, vt vector<text, 2>)",
            (),
        )
        .await?;
    let insert = session
        .prepare("INSERT INTO nested (id, l, s, m, fl, t, v, vt) VALUES (?, ?, ?, ?, ?, ?, ?, ?)")
        .await?;
    let text = |word: &str| word.to_owned();
    let written: Nested = (
        vec![3, 1, 2],
        BTreeSet::from([text("b"), text("a")]),
        BTreeMap::from([(text("x"), 1.5)]),
        vec![BTreeSet::from([2, 1]), BTreeSet::new()],
        (Some(7), None, Some(Uuid::new_v4())),
        vec![1.0, 2.5, -3.0],
        vec![text(""), text("longer than the first")],
    );
    let (l, s, m, fl, t, v, vt) = &written;
    session
        .execute_unpaged(&insert, (1, l, s, m, fl, t, v, vt))
        .await?;
    let rows = query(session, "SELECT l, s, m, fl, t, v, vt FROM nested WHERE id = 1").await?;
    equal(rows.single_row::<Nested>()?, written)?;

    let update = session
        .prepare("UPDATE nested SET l = l + ?, s = s - ?, m[?] = ? WHERE id = 1")
        .await?;
    session
        .execute_unpaged(&update, (vec![9], vec!["a"], "y", 2.5))
        .await?;
    let rows = query(session, "SELECT l, s, m FROM nested WHERE id = 1").await?;
    let (l, s, m) = rows.single_row::<(Vec<i32>, BTreeSet<String>, BTreeMap<String, f64>)>()?;
    equal(l, vec![3, 1, 2, 9])?;
    equal(s, BTreeSet::from([text("b")]))?;
    equal(m, BTreeMap::from([(text("x"), 1.5), (text("y"), 2.5)]))?;
    unset_keeps_what_is_there(session).await
}

async fn unset_keeps_what_is_there(session: &Session) -> Outcome {
    let insert = session
        .prepare("INSERT INTO nested (id, l, s) VALUES (?, ?, ?)")
        .await?;
    session.execute_unpaged(&insert, (2, vec![1], vec!["x"])).await?;
    let (unset, null): (MaybeUnset<Vec<i32>>, Option<Vec<String>>) = (MaybeUnset::Unset, None);
    session.execute_unpaged(&insert, (2, unset, null)).await?;
    session.execute_unpaged(&insert, (3, Unset, Unset)).await?;
    let read = |id: i32| async move {
        let rows = query(session, &format!("SELECT l, s FROM nested WHERE id = {id}")).await?;
        Outcome::Ok(rows.single_row::<(Option<Vec<i32>>, Option<Vec<String>>)>()?)
    };
    equal(read(2).await?, (Some(vec![1]), None))?;
    equal(read(3).await?, (None, None))
}

#[derive(Clone, PartialEq, Debug, SerializeValue, DeserializeValue)]
struct Address {
    street: String,
    zip: Option<i32>,
}

#[derive(Clone, PartialEq, Debug, SerializeValue, DeserializeValue)]
struct Person {
    name: String,
    home: Option<Address>,
    phones: Option<BTreeSet<String>>,
}

pub async fn user_types(session: &Session) -> Outcome {
    session
        .query_unpaged(
            "CREATE TABLE people (id int PRIMARY KEY, a address, p frozen<person>, l list<frozen<address>>)",
            (),
        )
        .await?;
    let main = Address {
        street: "Main".to_owned(),
        zip: Some(5),
    };
    let side = Address {
        street: "Side".to_owned(),
        zip: None,
    };
    let person = Person {
        name: "Ada".to_owned(),
        home: Some(main.clone()),
        phones: Some(BTreeSet::from(["1".to_owned(), "2".to_owned()])),
    };
    let insert = session
        .prepare("INSERT INTO people (id, a, p, l) VALUES (?, ?, ?, ?)")
        .await?;
    let homes = vec![main.clone(), side.clone()];
    session
        .execute_unpaged(&insert, (1, &side, &person, &homes))
        .await?;
    session
        .query_unpaged("UPDATE people SET a.zip = 8 WHERE id = 1", ())
        .await?;
    let rows = query(session, "SELECT a, p, l, a.zip, p.home FROM people WHERE id = 1").await?;
    let (a, p, l, zip, home) = rows.single_row::<(Address, Person, Vec<Address>, i32, Address)>()?;
    equal(a, Address { zip: Some(8), ..side })?;
    equal((p, l), (person, homes))?;
    equal((zip, home), (8, main))
}
