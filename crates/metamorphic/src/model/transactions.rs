//! Transactions: what they answer, and what they write, as if nothing else happened meanwhile.

use std::collections::BTreeMap;

use helenus_cql::ast::{
    Assignment, IndexHints, Insert, InsertSource, Marker, Modification, Operation, Reference, Returning,
    RowCondition, RowTest, Select, SelectItem, Selection, Selector, Term, Transaction, Update,
};

use super::facts::{Cells, holds};
use super::reads::{self, Expected};
use super::writes::value;
use super::{Model, Values};

/// Rows that the LETs have read; `None` where there is no row.
type Rows = BTreeMap<String, Option<Cells>>;

/// The rows that it answers; `None` where the model does not know.
pub fn expect(model: &Model, transaction: &Transaction, values: &Values, now_s: i64) -> Option<Expected> {
    match transaction.returning.as_ref()? {
        Returning::Select(select, _) => reads::expect(model.facts(&select.table)?, select, values, now_s),
        Returning::References(references) => {
            let rows = read(model, transaction, values, now_s)?;
            let row = references.iter().map(|reference| referred(&rows, reference));
            Some(Expected {
                rows: vec![row.collect::<Option<_>>()?],
                is_ordered: true,
            })
        }
    }
}

/// A statement and the values of its markers.
pub type BoundModification = (Modification, Vec<Option<Vec<u8>>>);

/// The statements that are executed, with the values that they refer to in the place of references and of arithmetic on what
/// is there; `None` where the model does not know. Their markers count from 0.
pub fn statements(
    model: &Model,
    transaction: &Transaction,
    values: &Values,
    now_s: i64,
) -> Option<Vec<BoundModification>> {
    let rows = read(model, transaction, values, now_s)?;
    for condition in &transaction.conditions {
        if !is_met(&rows, condition, values)? {
            return Some(Vec::new());
        }
    }
    let mut written = Vec::new();
    for (statement, _) in &transaction.statements {
        let mut resolver = Resolver {
            model,
            rows: &rows,
            values: values.to_vec(),
            now_s,
        };
        let statement = resolver.resolved(statement)?;
        written.push((statement, resolver.values));
    }
    Some(written)
}

fn read(model: &Model, transaction: &Transaction, values: &Values, now_s: i64) -> Option<Rows> {
    let mut rows = Rows::new();
    for read in &transaction.lets {
        let facts = model.facts(&read.select.table)?;
        let found = reads::expect(facts, &read.select, values, now_s)?;
        let Selection::Items(items) = &read.select.selection else {
            return None;
        };
        let names = items.iter().map(|item| match &item.selector {
            Selector::Column(name) => Some(name.clone()),
            _ => None,
        });
        let names: Vec<String> = names.collect::<Option<_>>()?;
        let row = found.rows.into_iter().next().map(|row| {
            let cells = names.into_iter().zip(row);
            cells.filter_map(|(name, value)| Some((name, value?))).collect()
        });
        rows.insert(read.name.clone(), row);
    }
    Some(rows)
}

/// `Some(None)` is null.
fn referred(rows: &Rows, reference: &Reference) -> Option<Option<Vec<u8>>> {
    let row = rows.get(&reference.row)?;
    let column = reference.column.as_ref()?;
    Some(row.as_ref().and_then(|row| row.get(column).cloned()))
}

fn is_met(rows: &Rows, condition: &RowCondition, values: &Values) -> Option<bool> {
    let RowCondition { reference, test } = condition;
    let found = match reference.column {
        None => rows.get(&reference.row)?.as_ref().map(|_| Vec::new()),
        Some(_) => referred(rows, reference)?,
    };
    Some(match test {
        RowTest::IsNull => found.is_none(),
        RowTest::IsNotNull => found.is_some(),
        RowTest::Compare {
            operator,
            value: term,
        } => {
            let wanted = integer(&value(term, values)??)?;
            match found {
                None => false,
                Some(found) => holds(*operator, integer(&found)?.cmp(&wanted)),
            }
        }
    })
}

fn integer(bytes: &[u8]) -> Option<i32> {
    bytes.try_into().ok().map(i32::from_be_bytes)
}

/// Gives one statement's terms the values that they come to, behind those of the client.
struct Resolver<'a> {
    model: &'a Model,
    rows: &'a Rows,
    values: Vec<Option<Vec<u8>>>,
    now_s: i64,
}

impl Resolver<'_> {
    fn resolved(&mut self, statement: &Modification) -> Option<Modification> {
        Some(match statement {
            Modification::Insert(insert) => Modification::Insert(self.insert(insert)?),
            Modification::Update(update) => Modification::Update(self.update(update)?),
            Modification::Delete(delete) => Modification::Delete(delete.clone()),
        })
    }

    fn insert(&mut self, insert: &Insert) -> Option<Insert> {
        let InsertSource::Values { columns, values } = &insert.source else {
            return None;
        };
        let values = values.iter().map(|term| self.term(term));
        Some(Insert {
            source: InsertSource::Values {
                columns: columns.clone(),
                values: values.collect::<Option<_>>()?,
            },
            ..insert.clone()
        })
    }

    fn update(&mut self, update: &Update) -> Option<Update> {
        let mut assignments = Vec::new();
        for Assignment { column, operation } in &update.assignments {
            let operation = match operation {
                Operation::Set(term) => Operation::Set(self.term(term)?),
                Operation::Add(term) => self.changed(update, column, term, i32::checked_add)?,
                Operation::Subtract(term) => self.changed(update, column, term, i32::checked_sub)?,
                _ => return None,
            };
            assignments.push(Assignment {
                column: column.clone(),
                operation,
            });
        }
        Some(Update {
            assignments,
            ..update.clone()
        })
    }

    fn term(&mut self, term: &Term) -> Option<Term> {
        match term {
            Term::Reference(reference) => {
                let value = referred(self.rows, reference)?;
                self.bound(value)
            }
            other => Some(other.clone()),
        }
    }

    /// Computes the new value of a column of the row that is updated.
    fn changed(
        &mut self,
        update: &Update,
        column: &str,
        term: &Term,
        operate: fn(i32, i32) -> Option<i32>,
    ) -> Option<Operation> {
        let by = integer(&value(term, &self.values)??)?;
        let select = Select {
            json: false,
            distinct: false,
            selection: Selection::Items(vec![SelectItem {
                selector: Selector::Column(column.to_owned()),
                alias: None,
            }]),
            table: update.table.clone(),
            relations: update.relations.clone(),
            group_by: Vec::new(),
            order_by: Vec::new(),
            per_partition_limit: None,
            limit: None,
            allow_filtering: false,
            index_hints: IndexHints::default(),
            bypass_cache: false,
            timeout: None,
        };
        let facts = self.model.facts(&update.table)?;
        let found = reads::expect(facts, &select, &self.values, self.now_s)?;
        // What comes of nothing is not modelled.
        let now = integer(found.rows.first()?.first()?.as_ref()?)?;
        let value = Some(operate(now, by)?.to_be_bytes().to_vec());
        self.bound(value).map(Operation::Set)
    }

    /// A marker with a value of its own.
    fn bound(&mut self, value: Option<Vec<u8>>) -> Option<Term> {
        let index = self.values.len();
        self.values.push(value);
        Some(Term::Marker(Marker { index, name: None }))
    }
}
