//! The WHERE clause: relations typed and merged into restrictions, and the checks on which of them may stand together.

use std::fmt;
use std::sync::Arc;

use helenus_cql::ast::{InValues, Operator, Relation, TupleInValues, TupleValue};
use helenus_schema::{ColumnKind, ColumnMetadata, TableMetadata};
use helenus_types::{CqlType, quoted_identifier};

use super::restriction::{InTerm, RestrictedColumn, Restriction, RestrictionKind, SliceBound, TupleTerm};
use crate::CqlError;
use crate::term::{Expression, RawTerm, Receiver, Typing};

/// The kind of statement the WHERE clause belongs to; the name appears in messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatementKind {
    Select,
    Insert,
    Update,
    Delete,
}

/// A typed and checked WHERE clause.
#[derive(Clone, Debug, Default)]
pub struct WhereClause {
    /// At most one for each column of the partition key, in key order.
    pub partition: Vec<Restriction>,
    pub token: Option<TokenRestriction>,
    /// In key order.
    pub clustering: Vec<Restriction>,
    /// Of static and regular columns.
    pub others: Vec<Restriction>,
    /// Set by the checks: the statement reads a range of partitions.
    pub is_key_range: bool,
}

/// `token(...) > ?` and the like.
#[derive(Clone, Debug, Default)]
pub struct TokenRestriction {
    pub start: Option<(Expression, bool)>,
    pub end: Option<(Expression, bool)>,
    is_equal: bool,
}

/// What decides which restrictions a statement may have.
#[derive(Clone, Copy, Debug)]
pub struct WhereRules {
    pub kind: StatementKind,
    /// The statement selects or modifies static columns only.
    pub is_static_only: bool,
    pub allows_filtering: bool,
    /// Filtering needs no leave on this table.
    pub filters_freely: bool,
}

pub const REQUIRES_ALLOW_FILTERING: &str = "Cannot execute this query as it might involve data filtering and thus \
     may have unpredictable performance. If you want to execute this query despite the performance \
     unpredictability, use ALLOW FILTERING";

impl fmt::Display for StatementKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StatementKind::Select => "SELECT",
            StatementKind::Insert => "INSERT",
            StatementKind::Update => "UPDATE",
            StatementKind::Delete => "DELETE",
        })
    }
}

impl WhereClause {
    pub fn prepare(typing: &Typing<'_>, relations: &[Relation], rules: WhereRules) -> Result<Self, CqlError> {
        let mut clause = WhereClause::default();
        for relation in relations {
            if let Relation::Column {
                operator: operator @ (Operator::Contains | Operator::ContainsKey),
                ..
            } = relation
                && matches!(rules.kind, StatementKind::Update | StatementKind::Delete)
            {
                return Err(invalid!(
                    "Cannot use {} with {}",
                    rules.kind,
                    operator_text(*operator)
                ));
            }
            match relation {
                Relation::IsNotNull { .. } => {
                    return Err(invalid!("Unsupported restriction: {}", RelationText(relation)));
                }
                Relation::Expression { index, .. } => {
                    return Err(match rules.kind {
                        StatementKind::Select => invalid!(
                            "Invalid index name '{}': index expressions are not supported yet",
                            index.name
                        ),
                        _ => invalid!(
                            "Custom index expressions cannot be used in WHERE clauses for UPDATE or DELETE statements"
                        ),
                    });
                }
                Relation::Token {
                    columns,
                    operator,
                    value,
                } => {
                    clause.add_token(typing, relation, columns, *operator, value)?;
                }
                _ => clause.add(restriction(typing, relation)?, rules)?,
            }
        }
        clause.check_partition(typing.scope.table, rules)?;
        clause.check_clustering(typing.scope.table, rules)?;
        clause.check_others(rules)?;
        Ok(clause)
    }

    /// Adds the restriction of an INSERT's value for a key column.
    pub fn add(&mut self, restriction: Restriction, rules: WhereRules) -> Result<(), CqlError> {
        match restriction.first().column.kind {
            ColumnKind::PartitionKey => merge_into(&mut self.partition, restriction),
            ColumnKind::Clustering => self.add_clustering(restriction, rules),
            ColumnKind::Static | ColumnKind::Regular => merge_into(&mut self.others, restriction),
        }
    }

    fn add_clustering(&mut self, new: Restriction, rules: WhereRules) -> Result<(), CqlError> {
        let (new_first, new_is_slice) = (new.first().clone(), new.is_slice());
        let last = self
            .clustering
            .last()
            .map(|last| (last.first().clone(), last.is_slice()));
        merge_into(&mut self.clustering, new)?;
        let Some((last, last_is_slice)) = last.filter(|_| !rules.allows_filtering) else {
            return Ok(());
        };
        if last_is_slice && new_first.position() > last.position() {
            return Err(invalid!(
                "Clustering column \"{}\" cannot be restricted (preceding column \"{}\" is restricted by a non-EQ \
                 relation)",
                new_first.name(),
                last.name()
            ));
        }
        if new_first.position() < last.position() && new_is_slice {
            let next = self
                .clustering
                .iter()
                .flat_map(|restriction| &restriction.columns);
            let next = next
                .filter(|column| column.position() > new_first.position())
                .min_by_key(|column| column.position());
            return Err(invalid!(
                "PRIMARY KEY column \"{}\" cannot be restricted (preceding column \"{}\" is restricted by a non-EQ \
                 relation)",
                next.map_or("", RestrictedColumn::name),
                new_first.name()
            ));
        }
        Ok(())
    }

    fn add_token(
        &mut self,
        typing: &Typing<'_>,
        relation: &Relation,
        columns: &[String],
        operator: Operator,
        value: &helenus_cql::ast::Term,
    ) -> Result<(), CqlError> {
        check_token_columns(typing, columns)?;
        let value = typing.term(
            &value.into(),
            &Receiver::new("partition key token", CqlType::Bigint),
        )?;
        let mut new = TokenRestriction::default();
        match operator {
            Operator::Equal => {
                new.start = Some((value.clone(), true));
                new.end = Some((value, true));
                new.is_equal = true;
            }
            Operator::Greater => new.start = Some((value, false)),
            Operator::GreaterOrEqual => new.start = Some((value, true)),
            Operator::Less => new.end = Some((value, false)),
            Operator::LessOrEqual => new.end = Some((value, true)),
            Operator::NotEqual => {
                return Err(invalid!(
                    "Unsupported \"!=\" relation: {}",
                    RelationText(relation)
                ));
            }
            Operator::Contains | Operator::ContainsKey | Operator::Like => {
                return Err(invalid!(
                    "{} cannot be used with the token function",
                    operator_text(operator)
                ));
            }
        }
        let names = columns.join(", ");
        let Some(old) = &self.token else {
            self.token = Some(new);
            return Ok(());
        };
        if old.is_equal {
            return Err(invalid!(
                "{names} cannot be restricted by more than one relation if it includes an Equal"
            ));
        }
        if new.is_equal {
            return Err(invalid!(
                "Columns \"{names}\" cannot be restricted by both an equality and an inequality relation"
            ));
        }
        if old.start.is_some() && new.start.is_some() {
            return Err(invalid!(
                "More than one restriction was found for the start bound on {names}"
            ));
        }
        if old.end.is_some() && new.end.is_some() {
            return Err(invalid!(
                "More than one restriction was found for the end bound on {names}"
            ));
        }
        let (start, end) = (old.start.clone().or(new.start), old.end.clone().or(new.end));
        self.token = Some(TokenRestriction {
            start,
            end,
            is_equal: false,
        });
        Ok(())
    }
}

/// Checks.
impl WhereClause {
    pub fn check_partition(&mut self, table: &TableMetadata, rules: WhereRules) -> Result<(), CqlError> {
        if rules.kind != StatementKind::Select {
            if self.token.is_some() {
                return Err(invalid!(
                    "The token function cannot be used in WHERE clauses for {} statements",
                    rules.kind
                ));
            }
            let missing = self.unrestricted(table.partition_key(), &self.partition);
            if !missing.is_empty() {
                return Err(invalid!("Some partition key parts are missing: {missing}"));
            }
            if self.partition.iter().any(Restriction::is_slice) {
                return Err(invalid!(
                    "Only EQ and IN relation are supported on the partition key (unless you use the token() \
                     function) for {} statements",
                    rules.kind
                ));
            }
            return Ok(());
        }
        let is_complete = self.partition.len() == table.partition_key().len();
        self.is_key_range = self.is_on_token(table) || self.partition.is_empty();
        if self.needs_partition_filtering(table) {
            if !rules.allows_filtering && !rules.filters_freely {
                return Err(invalid!("{REQUIRES_ALLOW_FILTERING}"));
            }
            self.is_key_range = true;
        }
        debug_assert!(
            self.is_key_range || is_complete,
            "keys are given in full or not at all"
        );
        Ok(())
    }

    /// Whether the partitions are those of a range of tokens. A token restriction beside a whole key only sorts out
    /// keys.
    pub fn is_on_token(&self, table: &TableMetadata) -> bool {
        self.token.is_some() && self.partition.len() < table.partition_key().len()
    }

    /// Whether restrictions on the partition key can only be met by looking at partitions.
    pub fn needs_partition_filtering(&self, table: &TableMetadata) -> bool {
        !self.partition.is_empty()
            && (self.partition.len() < table.partition_key().len()
                || self
                    .partition
                    .iter()
                    .any(|restriction| restriction.is_slice() || restriction.is_contains()))
    }

    pub fn check_clustering(&mut self, table: &TableMetadata, rules: WhereRules) -> Result<(), CqlError> {
        let kind = rules.kind;
        if rules.is_static_only && !self.clustering.is_empty() {
            return Err(match kind {
                StatementKind::Delete | StatementKind::Update => invalid!(
                    "Invalid restrictions on clustering columns since the {kind} statement modifies only static columns"
                ),
                StatementKind::Select => {
                    invalid!("Cannot restrict clustering columns when selecting only static columns")
                }
                StatementKind::Insert => return self.check_whole_clustering(table, rules),
            });
        }
        match kind {
            StatementKind::Insert | StatementKind::Update => self.check_whole_clustering(table, rules),
            StatementKind::Select | StatementKind::Delete => self.check_clustering_prefix(table, rules),
        }
    }

    fn check_whole_clustering(&self, table: &TableMetadata, rules: WhereRules) -> Result<(), CqlError> {
        if self.clustering.iter().any(Restriction::is_slice) {
            return Err(invalid!(
                "Slice restrictions are not supported on the clustering columns in {} statements",
                rules.kind
            ));
        }
        let missing = self.unrestricted(table.clustering(), &self.clustering);
        if !rules.is_static_only && !missing.is_empty() {
            return Err(invalid!("Some clustering keys are missing: {missing}"));
        }
        Ok(())
    }

    fn check_clustering_prefix(&self, table: &TableMetadata, rules: WhereRules) -> Result<(), CqlError> {
        if self.clustering.iter().any(Restriction::is_contains) && !rules.allows_filtering {
            return Err(invalid!(
                "Clustering columns can only be restricted with CONTAINS with a secondary index or filtering"
            ));
        }
        if rules.allows_filtering || self.clustering_prefix_length() == self.clustering.len() {
            return Ok(());
        }
        let restricted = self
            .clustering
            .iter()
            .flat_map(|restriction| &restriction.columns);
        for (restricted, column) in restricted.zip(table.clustering()) {
            if restricted.column.id != column.id {
                return Err(invalid!(
                    "PRIMARY KEY column \"{}\" cannot be restricted as preceding column \"{}\" is not restricted",
                    restricted.name(),
                    column.name
                ));
            }
        }
        Ok(())
    }

    /// How many of the clustering restrictions make up the slices; the others filter.
    pub fn clustering_prefix_length(&self) -> usize {
        let mut position = 0;
        for (index, restriction) in self.clustering.iter().enumerate() {
            if restriction.is_contains() || restriction.first_position() != position {
                return index;
            }
            if restriction.is_slice() {
                return index + 1;
            }
            position = restriction.end_position();
        }
        self.clustering.len()
    }

    fn check_others(&self, rules: WhereRules) -> Result<(), CqlError> {
        if self.others.is_empty() {
            return Ok(());
        }
        if rules.kind != StatementKind::Select {
            let names: Vec<&str> = self
                .others
                .iter()
                .map(|restriction| restriction.first().name())
                .collect();
            return Err(invalid!(
                "Non PRIMARY KEY columns found in where clause: {} ",
                names.join(", ")
            ));
        }
        if !rules.allows_filtering && !rules.filters_freely {
            return Err(invalid!("{REQUIRES_ALLOW_FILTERING}"));
        }
        Ok(())
    }

    fn unrestricted(&self, columns: &[ColumnMetadata], restrictions: &[Restriction]) -> String {
        let is_restricted = |column: &ColumnMetadata| {
            restrictions
                .iter()
                .flat_map(|restriction| &restriction.columns)
                .any(|other| other.column.id == column.id)
        };
        let missing = columns
            .iter()
            .filter(|column| !is_restricted(column))
            .map(|column| &*column.name);
        missing.collect::<Vec<_>>().join(", ")
    }

    /// Whether one relation fixes the column's value.
    pub fn is_equal(&self, column: &ColumnMetadata) -> bool {
        self.partition.iter().chain(&self.clustering).any(|restriction| {
            restriction.is_equal()
                && restriction
                    .columns
                    .iter()
                    .any(|other| other.column.id == column.id)
        })
    }

    pub fn has_key_in(&self) -> bool {
        self.partition.iter().any(Restriction::is_in)
    }
}

/// Merges a restriction with those on the same columns, or inserts it in key order (other columns: by name).
fn merge_into(restrictions: &mut Vec<Restriction>, new: Restriction) -> Result<(), CqlError> {
    let overlaps = |old: &Restriction| {
        old.columns.iter().any(|column| {
            new.columns
                .iter()
                .any(|other| other.column.id == column.column.id)
        })
    };
    match restrictions.iter().position(overlaps) {
        Some(index) => {
            let merged = restrictions.remove(index).merge(new)?;
            restrictions.insert(index, merged);
        }
        None => {
            restrictions.push(new);
            restrictions.sort_by(|left, right| {
                let key = |restriction: &Restriction| {
                    (
                        restriction.first_position(),
                        Arc::clone(&restriction.first().column.name),
                    )
                };
                key(left).cmp(&key(right))
            });
        }
    }
    Ok(())
}

fn check_token_columns(typing: &Typing<'_>, names: &[String]) -> Result<(), CqlError> {
    let key = typing.scope.table.partition_key();
    let columns = names
        .iter()
        .map(|name| typing.column(name))
        .collect::<Result<Vec<_>, _>>()?;
    if columns
        .iter()
        .map(|column| column.id)
        .eq(key.iter().map(|column| column.id))
    {
        return Ok(());
    }
    if !key
        .iter()
        .all(|column| columns.iter().any(|other| other.id == column.id))
    {
        return Err(invalid!(
            "The token() function must be applied to all partition key components or none of them"
        ));
    }
    let is_repeated = |index: usize| columns[..index].iter().any(|other| other.id == columns[index].id);
    if (0..columns.len()).any(is_repeated) {
        return Err(invalid!(
            "The token() function contains duplicate partition key components"
        ));
    }
    if columns.len() > key.len() {
        return Err(invalid!(
            "The token() function must contains only partition key components"
        ));
    }
    let order = key
        .iter()
        .map(|column| &*column.name)
        .collect::<Vec<_>>()
        .join(", ");
    Err(invalid!(
        "The token function arguments must be in the partition key order: {order}"
    ))
}

/// Types one relation on columns.
fn restriction(typing: &Typing<'_>, relation: &Relation) -> Result<Restriction, CqlError> {
    match relation {
        Relation::Column {
            column,
            operator,
            value,
        } => {
            let column = typing.column(column)?;
            column_restriction(typing, relation, column, *operator, &value.into())
        }
        Relation::In { column, values } => in_restriction(typing, typing.column(column)?, values),
        Relation::Element {
            column,
            key,
            operator,
            value,
        } => element_restriction(
            typing,
            relation,
            typing.column(column)?,
            &key.into(),
            *operator,
            &value.into(),
        ),
        Relation::Tuple {
            columns,
            operator,
            value,
        } => tuple_restriction(typing, relation, columns, *operator, value),
        Relation::TupleIn { columns, values } => tuple_in_restriction(typing, relation, columns, values),
        Relation::IsNotNull { .. } | Relation::Token { .. } | Relation::Expression { .. } => {
            Err(invalid!("Unsupported restriction: {}", RelationText(relation)))
        }
    }
}

pub fn single(column: &ColumnMetadata, kind: RestrictionKind) -> Restriction {
    let columns = vec![RestrictedColumn {
        column: Arc::new(column.clone()),
    }];
    Restriction {
        columns,
        is_multi_column: false,
        kind,
    }
}

/// Refuses what no relation but CONTAINS may look at: values that are many cells.
fn check_receiver(column: &ColumnMetadata, operator: &str) -> Result<(), CqlError> {
    let (name, cql_type) = (&column.name, &column.cql_type);
    if cql_type.is_user_defined() && cql_type.is_multi_cell() {
        return Err(invalid!(
            "Non-frozen UDT column '{name}' ({cql_type}) cannot be restricted by any relation"
        ));
    }
    if cql_type.is_collection() && cql_type.is_multi_cell() {
        return Err(invalid!(
            "Collection column '{name}' ({cql_type}) cannot be restricted by a '{operator}' relation"
        ));
    }
    Ok(())
}

fn column_restriction(
    typing: &Typing<'_>,
    relation: &Relation,
    column: &ColumnMetadata,
    operator: Operator,
    value: &RawTerm,
) -> Result<Restriction, CqlError> {
    let (name, cql_type) = (&column.name, &column.cql_type);
    match operator {
        Operator::NotEqual => {
            return Err(invalid!(
                "Unsupported \"!=\" relation: {}",
                RelationText(relation)
            ));
        }
        Operator::Contains | Operator::ContainsKey => {
            return contains_restriction(typing, column, operator, value);
        }
        Operator::Less | Operator::LessOrEqual | Operator::Greater | Operator::GreaterOrEqual
            if cql_type.references_duration() =>
        {
            return Err(match cql_type {
                collection if collection.is_collection() => {
                    invalid!("Slice restrictions are not supported on collections containing durations")
                }
                CqlType::Tuple(_) => {
                    invalid!("Slice restrictions are not supported on tuples containing durations")
                }
                CqlType::UserDefined { .. } => {
                    invalid!("Slice restrictions are not supported on UDTs containing durations")
                }
                _ => invalid!("Slice restrictions are not supported on duration columns"),
            });
        }
        _ => {}
    }
    check_receiver(column, operator_text(operator))?;
    let term = TupleTerm::Single(typing.term(value, &Receiver::column(column))?);
    if operator == Operator::Like {
        return Err(invalid!(
            "LIKE restriction is only supported on properly indexed columns. {} is not valid.",
            RelationText(relation)
        ));
    }
    let kind = comparison(operator, term).ok_or_else(|| invalid!("Unsupported restriction on {name}"))?;
    Ok(single(column, kind))
}

/// Equality or one bound.
fn comparison(operator: Operator, value: TupleTerm) -> Option<RestrictionKind> {
    let start = |value, is_inclusive| RestrictionKind::Slice {
        start: Some(SliceBound { value, is_inclusive }),
        end: None,
    };
    let end = |value, is_inclusive| RestrictionKind::Slice {
        start: None,
        end: Some(SliceBound { value, is_inclusive }),
    };
    Some(match operator {
        Operator::Equal => RestrictionKind::Equal(value),
        Operator::Greater => start(value, false),
        Operator::GreaterOrEqual => start(value, true),
        Operator::Less => end(value, false),
        Operator::LessOrEqual => end(value, true),
        Operator::NotEqual | Operator::Contains | Operator::ContainsKey | Operator::Like => return None,
    })
}

fn contains_restriction(
    typing: &Typing<'_>,
    column: &ColumnMetadata,
    operator: Operator,
    value: &RawTerm,
) -> Result<Restriction, CqlError> {
    let name = &column.name;
    let receiver = Receiver::column(column);
    let is_key = operator == Operator::ContainsKey;
    let part = match (&column.cql_type, is_key) {
        (CqlType::Map { key, .. }, true) => receiver.part("key", key),
        (_, true) => return Err(invalid!("Cannot use CONTAINS KEY on non-map column {name}")),
        (CqlType::Map { value, .. }, false) => receiver.part("value", value),
        (CqlType::List { element, .. } | CqlType::Set { element, .. }, false) => {
            receiver.part("value", element)
        }
        (_, false) => return Err(invalid!("Cannot use CONTAINS on non-collection column {name}")),
    };
    let term = vec![typing.term(value, &part)?];
    let (keys, values) = if is_key {
        (term, Vec::new())
    } else {
        (Vec::new(), term)
    };
    Ok(single(
        column,
        RestrictionKind::Contains {
            values,
            keys,
            entries: Vec::new(),
        },
    ))
}

fn element_restriction(
    typing: &Typing<'_>,
    relation: &Relation,
    column: &ColumnMetadata,
    key: &RawTerm,
    operator: Operator,
    value: &RawTerm,
) -> Result<Restriction, CqlError> {
    let name = &column.name;
    if operator == Operator::NotEqual {
        return Err(invalid!(
            "Unsupported \"!=\" relation: {}",
            RelationText(relation)
        ));
    }
    let (key_type, value_type) = match &column.cql_type {
        CqlType::List { .. } => {
            return Err(invalid!(
                "Indexes on list entries ({name}[index] = value) are not currently supported."
            ));
        }
        CqlType::Map { frozen: true, .. } => {
            return Err(invalid!(
                "Map-entry equality predicates on frozen map column {name} are not supported"
            ));
        }
        CqlType::Map { key, value, .. } => (key, value),
        _ => return Err(invalid!("Column {name} cannot be used as a map")),
    };
    if operator != Operator::Equal {
        return Err(invalid!("Only EQ relations are supported on map entries"));
    }
    let receiver = Receiver::column(column);
    let key = typing.term(key, &receiver.part("key", key_type))?;
    let value = typing.term(value, &receiver.part("value", value_type))?;
    let kind = RestrictionKind::Contains {
        values: Vec::new(),
        keys: Vec::new(),
        entries: vec![(key, value)],
    };
    Ok(single(column, kind))
}

fn in_restriction(
    typing: &Typing<'_>,
    column: &ColumnMetadata,
    values: &InValues,
) -> Result<Restriction, CqlError> {
    check_receiver(column, "IN")?;
    let receiver = Receiver::column(column);
    match values {
        InValues::Marker(marker) => {
            let list = CqlType::list(column.cql_type.clone(), false);
            let receiver = Receiver::new(format!("in({})", column.name), list);
            let marker = typing.term(&RawTerm::Marker(marker.clone()), &receiver)?;
            Ok(single(column, RestrictionKind::In(InTerm::Marker(marker))))
        }
        InValues::List(values) => {
            let terms = values
                .iter()
                .map(|value| typing.term(&value.into(), &receiver).map(TupleTerm::Single));
            let mut terms = terms.collect::<Result<Vec<_>, _>>()?;
            let kind = match terms.len() {
                1 => RestrictionKind::Equal(terms.swap_remove(0)),
                _ => RestrictionKind::In(InTerm::Values(terms)),
            };
            Ok(single(column, kind))
        }
    }
}

fn tuple_columns<'a>(
    typing: &Typing<'a>,
    relation: &Relation,
    names: &[String],
) -> Result<Vec<&'a ColumnMetadata>, CqlError> {
    let mut columns: Vec<&ColumnMetadata> = Vec::with_capacity(names.len());
    for name in names {
        let column = typing.column(name)?;
        if column.kind != ColumnKind::Clustering {
            return Err(invalid!(
                "Multi-column relations can only be applied to clustering columns but was applied to: {}",
                column.name
            ));
        }
        if columns.iter().any(|other| other.id == column.id) {
            return Err(invalid!(
                "Column \"{}\" appeared twice in a relation: {}",
                column.name,
                RelationText(relation)
            ));
        }
        if columns
            .last()
            .is_some_and(|last| column.position != last.position + 1)
        {
            return Err(invalid!(
                "Clustering columns must appear in the PRIMARY KEY order in multi-column relations: {}",
                RelationText(relation)
            ));
        }
        columns.push(column);
    }
    Ok(columns)
}

fn restricted(columns: &[&ColumnMetadata], kind: RestrictionKind) -> Restriction {
    let columns = columns
        .iter()
        .map(|column| RestrictedColumn {
            column: Arc::new((*column).clone()),
        })
        .collect();
    Restriction {
        columns,
        is_multi_column: true,
        kind,
    }
}

fn tuple_receiver(columns: &[&ColumnMetadata], prefix: &str) -> (String, CqlType) {
    let names = columns
        .iter()
        .map(|column| &*column.name)
        .collect::<Vec<_>>()
        .join(",");
    (
        format!("{prefix}({names})"),
        CqlType::tuple(columns.iter().map(|column| column.cql_type.clone())),
    )
}

fn tuple_term(
    typing: &Typing<'_>,
    columns: &[&ColumnMetadata],
    components: &[helenus_cql::ast::Term],
) -> Result<TupleTerm, CqlError> {
    if components.len() != columns.len() {
        let tuple = RawTerm::Tuple(components.iter().map(RawTerm::from).collect());
        return Err(invalid!(
            "Expected {} elements in value tuple, but got {}: {tuple}",
            columns.len(),
            components.len()
        ));
    }
    let typed = components
        .iter()
        .zip(columns)
        .map(|(component, column)| typing.term(&component.into(), &Receiver::column(column)));
    typed.collect::<Result<Vec<_>, _>>().map(TupleTerm::Components)
}

fn tuple_restriction(
    typing: &Typing<'_>,
    relation: &Relation,
    names: &[String],
    operator: Operator,
    value: &TupleValue,
) -> Result<Restriction, CqlError> {
    if matches!(
        operator,
        Operator::Contains | Operator::ContainsKey | Operator::Like
    ) {
        return Err(invalid!(
            "{} cannot be used for multi-column relations",
            operator_text(operator)
        ));
    }
    if operator == Operator::NotEqual {
        return Err(invalid!(
            "Unsupported \"!=\" relation: {}",
            RelationText(relation)
        ));
    }
    let columns = tuple_columns(typing, relation, names)?;
    let term = match value {
        TupleValue::Tuple(components) => tuple_term(typing, &columns, components)?,
        TupleValue::Marker(marker) => {
            let (name, tuple) = tuple_receiver(&columns, "");
            TupleTerm::Marker(typing.term(&RawTerm::Marker(marker.clone()), &Receiver::new(name, tuple))?)
        }
    };
    let kind = comparison(operator, term)
        .ok_or_else(|| invalid!("Unsupported restriction: {}", RelationText(relation)))?;
    Ok(restricted(&columns, kind))
}

fn tuple_in_restriction(
    typing: &Typing<'_>,
    relation: &Relation,
    names: &[String],
    values: &TupleInValues,
) -> Result<Restriction, CqlError> {
    let columns = tuple_columns(typing, relation, names)?;
    let mut terms = match values {
        TupleInValues::Marker(marker) => {
            let (name, tuple) = tuple_receiver(&columns, "in");
            let receiver = Receiver::new(name, CqlType::list(tuple, false));
            let marker = typing.term(&RawTerm::Marker(marker.clone()), &receiver)?;
            return Ok(restricted(&columns, RestrictionKind::In(InTerm::Marker(marker))));
        }
        TupleInValues::Tuples(tuples) => tuples
            .iter()
            .map(|tuple| tuple_term(typing, &columns, tuple))
            .collect::<Result<Vec<_>, _>>()?,
        TupleInValues::Markers(markers) => {
            let (name, tuple) = tuple_receiver(&columns, "");
            let receiver = Receiver::new(name, tuple);
            let typed = markers
                .iter()
                .map(|marker| typing.term(&RawTerm::Marker(marker.clone()), &receiver));
            typed
                .map(|marker| marker.map(TupleTerm::Marker))
                .collect::<Result<Vec<_>, _>>()?
        }
    };
    let kind = match terms.len() {
        1 => RestrictionKind::Equal(terms.swap_remove(0)),
        _ => RestrictionKind::In(InTerm::Values(terms)),
    };
    Ok(restricted(&columns, kind))
}

pub fn operator_text(operator: Operator) -> &'static str {
    match operator {
        Operator::Equal => "=",
        Operator::NotEqual => "!=",
        Operator::Less => "<",
        Operator::LessOrEqual => "<=",
        Operator::Greater => ">",
        Operator::GreaterOrEqual => ">=",
        Operator::Contains => "CONTAINS",
        Operator::ContainsKey => "CONTAINS KEY",
        Operator::Like => "LIKE",
    }
}

/// A relation as Cassandra prints it.
struct RelationText<'a>(&'a Relation);

impl fmt::Display for RelationText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |columns: &[String]| {
            columns
                .iter()
                .map(|column| quoted_identifier(column).into_owned())
                .collect::<Vec<_>>()
                .join(", ")
        };
        match self.0 {
            Relation::Column {
                column,
                operator,
                value,
            } => {
                let value = RawTerm::from(value);
                write!(
                    f,
                    "{} {} {value}",
                    quoted_identifier(column),
                    operator_text(*operator)
                )
            }
            Relation::In {
                column,
                values: InValues::Marker(_),
            } => write!(f, "{} IN ?", quoted_identifier(column)),
            Relation::In {
                column,
                values: InValues::List(values),
            } => {
                let values = RawTerm::Tuple(values.iter().map(RawTerm::from).collect());
                write!(f, "{} IN {values}", quoted_identifier(column))
            }
            Relation::IsNotNull { column } => write!(f, "{} IS NOT NULL", quoted_identifier(column)),
            Relation::Element {
                column,
                key,
                operator,
                value,
            } => {
                let (key, value) = (RawTerm::from(key), RawTerm::from(value));
                write!(
                    f,
                    "{}[{key}] {} {value}",
                    quoted_identifier(column),
                    operator_text(*operator)
                )
            }
            Relation::Token {
                columns,
                operator,
                value,
            } => {
                write!(
                    f,
                    "token({}) {} {}",
                    names(columns),
                    operator_text(*operator),
                    RawTerm::from(value)
                )
            }
            Relation::Tuple {
                columns,
                operator,
                value,
            } => {
                write!(f, "({}) {} ", names(columns), operator_text(*operator))?;
                match value {
                    TupleValue::Marker(_) => f.write_str("?"),
                    TupleValue::Tuple(components) => {
                        write!(
                            f,
                            "{}",
                            RawTerm::Tuple(components.iter().map(RawTerm::from).collect())
                        )
                    }
                }
            }
            Relation::TupleIn { columns, .. } => write!(f, "({}) IN ?", names(columns)),
            Relation::Expression { index, .. } => write!(f, "expr({}, ?)", index.name),
        }
    }
}
