//! The facts that INSERT, UPDATE, DELETE and batches of them state.

use helenus_cql::ast::{
    Assignment, Batch, Conditions, Delete, DeletionTarget, Insert, InsertSource, LiteralKind, Modification,
    Operation, Operator, QualifiedName, Relation, Statement, Term, Update, Using,
};
use helenus_schema::{ColumnKind, ColumnMetadata, TableMetadata};
use helenus_types::CqlType;
use helenus_types::value::collection::CollectionElements;

use super::facts::{Bound, Cell, Fact, FactKind, Key};
use super::{Model, TableName, Values, name_of};

/// Returns the facts of each table that is written to; `None` where the model does not know what is written.
pub fn facts(
    model: &Model,
    statement: &Statement,
    values: &Values,
    now_s: i64,
) -> Vec<(TableName, Option<Vec<Fact>>)> {
    let one = |modification: &Modification, batch: Option<&Using>| {
        let table = table_of(modification);
        let known = model.facts(table).and_then(super::Facts::table);
        let facts = known.and_then(|table| {
            let writer = match table.is_counter() {
                true => Writer {
                    table,
                    values,
                    timestamp: model.statements,
                    until_s: None,
                },
                false => Writer::new(table, values, now_s, modification, batch)?,
            };
            writer.facts(modification)
        });
        name_of(table).map(|name| (name, facts))
    };
    match statement {
        Statement::Modification(modification) => one(modification, None).into_iter().collect(),
        Statement::Batch(Batch {
            using, statements, ..
        }) => {
            let each = statements.iter();
            each.filter_map(|modification| one(modification, Some(using)))
                .collect()
        }
        _ => Vec::new(),
    }
}

/// Returns the facts of a transaction's statement, which has the time of its place among all statements; deletions are a
/// moment older.
pub fn facts_of_transaction(
    model: &Model,
    modification: &Modification,
    values: &Values,
) -> Option<(TableName, Option<Vec<Fact>>)> {
    let table = table_of(modification);
    let known = model.facts(table).and_then(super::Facts::table);
    let facts = known.and_then(|table| {
        let writer = Writer {
            table,
            values,
            timestamp: 2 * model.statements - i64::from(matches!(modification, Modification::Delete(_))),
            until_s: None,
        };
        writer.facts(modification)
    });
    name_of(table).map(|name| (name, facts))
}

pub fn table_of(modification: &Modification) -> &QualifiedName {
    match modification {
        Modification::Insert(insert) => &insert.table,
        Modification::Update(update) => &update.table,
        Modification::Delete(delete) => &delete.table,
    }
}

/// One statement's view of its table, values and time.
struct Writer<'a> {
    table: &'a TableMetadata,
    values: &'a Values,
    timestamp: i64,
    until_s: Option<i64>,
}

impl<'a> Writer<'a> {
    fn new(
        table: &'a TableMetadata,
        values: &'a Values,
        now_s: i64,
        modification: &Modification,
        batch: Option<&Using>,
    ) -> Option<Self> {
        let using = match modification {
            Modification::Insert(insert) => &insert.using,
            Modification::Update(update) => &update.using,
            Modification::Delete(delete) => &delete.using,
        };
        let timestamp = using.timestamp.as_ref();
        let timestamp = timestamp.or(batch.and_then(|using| using.timestamp.as_ref()))?;
        let until_s = match &using.ttl {
            None => None,
            Some(ttl) => Some(now_s + integer(ttl)?),
        };
        Some(Writer {
            table,
            values,
            timestamp: integer(timestamp)?,
            until_s,
        })
    }

    fn facts(&self, modification: &Modification) -> Option<Vec<Fact>> {
        match modification {
            Modification::Insert(insert) => self.insert(insert),
            Modification::Update(update) => self.update(update),
            Modification::Delete(delete) => self.delete(delete),
        }
    }

    fn insert(&self, insert: &Insert) -> Option<Vec<Fact>> {
        let InsertSource::Values { columns, values } = &insert.source else {
            return None;
        };
        if insert.if_not_exists {
            return None;
        }
        let value_of = |column: &ColumnMetadata| -> Option<Vec<u8>> {
            let place = columns.iter().position(|name| **name == *column.name)?;
            self.value(values.get(place)?)?
        };
        let key_of = |columns: &[ColumnMetadata]| -> Option<Key> { columns.iter().map(value_of).collect() };
        let partition = key_of(self.table.partition_key())?;
        let row = key_of(self.table.clustering())?;
        let mut kinds = vec![FactKind::Marker {
            row: row.clone(),
            until_s: self.until_s,
        }];
        for (name, term) in columns.iter().zip(values) {
            let column = self.table.column(name)?;
            if matches!(column.kind, ColumnKind::Regular | ColumnKind::Static) {
                self.assign(&mut kinds, column, &row, &Operation::Set(term.clone()))?;
            }
        }
        Some(self.stated(&partition, kinds))
    }

    fn update(&self, update: &Update) -> Option<Vec<Fact>> {
        if update.conditions != Conditions::None {
            return None;
        }
        let (partition, bounds) = self.keys(&update.relations)?;
        let row: Key = bounds.into_iter().map(|bound| bound.value).collect();
        let mut kinds = Vec::new();
        for Assignment { column, operation } in &update.assignments {
            self.assign(&mut kinds, self.table.column(column)?, &row, operation)?;
        }
        Some(self.stated(&partition, kinds))
    }

    fn assign(
        &self,
        kinds: &mut Vec<FactKind>,
        column: &ColumnMetadata,
        row: &Key,
        operation: &Operation,
    ) -> Option<()> {
        let row = (column.kind == ColumnKind::Regular).then(|| row.clone());
        if column.cql_type.is_counter() {
            let (Operation::Add(term) | Operation::Subtract(term)) = operation else {
                return None;
            };
            let by = i64::from_be_bytes(self.value(term)??.try_into().ok()?);
            kinds.push(FactKind::Count {
                row,
                column: column.name.to_string(),
                by: match operation {
                    Operation::Subtract(_) => by.wrapping_neg(),
                    _ => by,
                },
            });
            return Some(());
        }
        let cell = |path: Vec<u8>, value: Option<Vec<u8>>| {
            FactKind::Cell(Cell {
                row: row.clone(),
                column: column.name.to_string(),
                path,
                until_s: self.until_s.filter(|_| value.is_some()),
                value,
            })
        };
        match operation {
            Operation::Set(term) if !column.cql_type.is_multi_cell() => {
                kinds.push(cell(Vec::new(), self.value(term)?));
            }
            Operation::Set(term) => {
                kinds.push(FactKind::ColumnDeletion {
                    row: row.clone(),
                    column: column.name.to_string(),
                    is_overwrite: true,
                });
                for (path, value) in elements(&column.cql_type, self.value(term)?)? {
                    kinds.push(cell(path, Some(value)));
                }
            }
            Operation::Add(term) => {
                for (path, value) in elements(&column.cql_type, self.value(term)?)? {
                    kinds.push(cell(path, Some(value)));
                }
            }
            Operation::Subtract(term) => {
                let keys = match &column.cql_type {
                    CqlType::Map { key, .. } => CqlType::set((**key).clone(), true),
                    other => other.clone(),
                };
                for (path, _) in elements(&keys, self.value(term)?)? {
                    kinds.push(cell(path, None));
                }
            }
            Operation::SetElement { key, value } => kinds.push(cell(self.value(key)??, self.value(value)?)),
            Operation::SetField { .. } | Operation::Prepend(_) => return None,
        }
        Some(())
    }

    fn delete(&self, delete: &Delete) -> Option<Vec<Fact>> {
        if delete.conditions != Conditions::None {
            return None;
        }
        let (partition, bounds) = self.keys(&delete.relations)?;
        if delete.targets.is_empty() {
            return Some(self.stated(&partition, vec![FactKind::Deletion(bounds)]));
        }
        let key: Key = bounds.into_iter().map(|bound| bound.value).collect();
        let mut kinds = Vec::new();
        for target in &delete.targets {
            let (DeletionTarget::Column(name) | DeletionTarget::Element { column: name, .. }) = target else {
                return None;
            };
            let column = self.table.column(name)?;
            let row = (column.kind == ColumnKind::Regular).then(|| key.clone());
            let path = match target {
                DeletionTarget::Element { key, .. } => self.value(key)??,
                _ => Vec::new(),
            };
            let is_whole = matches!(target, DeletionTarget::Column(_));
            kinds.push(if is_whole && column.cql_type.is_multi_cell() {
                FactKind::ColumnDeletion {
                    row,
                    column: name.clone(),
                    is_overwrite: false,
                }
            } else {
                FactKind::Cell(Cell {
                    row,
                    column: name.clone(),
                    path,
                    value: None,
                    until_s: None,
                })
            });
        }
        Some(self.stated(&partition, kinds))
    }

    fn stated(&self, partition: &Key, kinds: Vec<FactKind>) -> Vec<Fact> {
        let stated = kinds.into_iter().map(|kind| self.state(partition, kind));
        stated.collect()
    }

    fn state(&self, partition: &Key, kind: FactKind) -> Fact {
        // An assignment of a whole collection deletes what was there a moment before.
        let moment = i64::from(matches!(
            kind,
            FactKind::ColumnDeletion {
                is_overwrite: true,
                ..
            }
        ));
        Fact {
            partition: partition.clone(),
            timestamp: self.timestamp - moment,
            kind,
        }
    }

    /// The partition, and the bounds of clustering columns in their order.
    fn keys(&self, relations: &[Relation]) -> Option<(Key, Vec<Bound>)> {
        let mut partition: Vec<(u16, Vec<u8>)> = Vec::new();
        let mut bounds = Vec::new();
        for relation in relations {
            let Relation::Column {
                column,
                operator,
                value,
            } = relation
            else {
                return None;
            };
            let column = self.table.column(column)?;
            let value = self.value(value)??;
            match column.kind {
                ColumnKind::PartitionKey if *operator == Operator::Equal => {
                    partition.push((column.position, value));
                }
                ColumnKind::Clustering => bounds.push(Bound {
                    column: usize::from(column.position),
                    operator: *operator,
                    value,
                }),
                _ => return None,
            }
        }
        partition.sort();
        bounds.sort_by_key(|bound| bound.column);
        Some((partition.into_iter().map(|(_, value)| value).collect(), bounds))
    }

    /// `None` where it is no marker and no null; `Some(None)` is null.
    fn value(&self, term: &Term) -> Option<Option<Vec<u8>>> {
        value(term, self.values)
    }
}

/// As [`Writer::value`].
pub fn value(term: &Term, values: &Values) -> Option<Option<Vec<u8>>> {
    match term {
        Term::Null => Some(None),
        Term::Marker(marker) => values.get(marker.index).cloned(),
        _ => None,
    }
}

pub fn integer(term: &Term) -> Option<i64> {
    match term {
        Term::Literal(literal) if literal.kind == LiteralKind::Integer => literal.text.parse().ok(),
        _ => None,
    }
}

/// The elements of a serialized set with nothing, or the entries of a map; of null, none.
fn elements(cql_type: &CqlType, bytes: Option<Vec<u8>>) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
    let bytes = bytes.unwrap_or_default();
    let own = |value: Option<&[u8]>| value.unwrap_or_default().to_vec();
    if bytes.is_empty() {
        return Some(Vec::new());
    }
    match cql_type {
        CqlType::Set { .. } => {
            let elements = CollectionElements::new(&bytes, 1)?;
            Some(elements.map(|element| (own(element), Vec::new())).collect())
        }
        CqlType::Map { .. } => {
            let values: Vec<Vec<u8>> = CollectionElements::new(&bytes, 2)?.map(own).collect();
            let entries = values.chunks_exact(2);
            Some(
                entries
                    .map(|entry| (entry[0].clone(), entry[1].clone()))
                    .collect(),
            )
        }
        _ => None,
    }
}
