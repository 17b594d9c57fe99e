//! The WHERE clause: relations typed and merged into restrictions, and the checks on which of them may stand together.

use helenus_cql::ast::{Operator, Relation};
use helenus_schema::{ColumnKind, ColumnMetadata, IndexId, TableMetadata};
use helenus_types::CqlType;

use super::index_support::{
    IndexCollation, IndexReads, NearestColumn, chosen, collations, has_index, needs_filtering,
};
use super::named::{check_expressions, check_token_columns};
use super::relation::{RelationText, operator_text, restriction};
use super::restriction::{RestrictedColumn, Restriction};
use super::statement_kind::StatementKind;
use crate::CqlError;
use crate::heap_bytes::{HeapBytes, flat_bytes};
use crate::term::{Expression, Receiver, Typing};

/// A typed and checked WHERE clause.
#[derive(Clone, Debug, Default)]
pub struct WhereClause {
    /// At most one for each column of the partition key, in key order.
    pub partition: Vec<Restriction>,
    pub token: Option<TokenRestriction>,
    /// In key order.
    pub clustering: Vec<Restriction>,
    /// Restrictions of static and regular columns.
    pub others: Vec<Restriction>,
    /// Set by the checks: the statement reads a range of partitions.
    pub is_key_range: bool,
    /// Set by the checks: the statement is one for secondary indexes.
    pub uses_index: bool,
    /// Set by the checks: rows have to be looked at, whatever indexes say.
    pub needs_filtering: bool,
    /// Set by the checks: without these the statement would not be allowed.
    pub needed_indexes: Vec<IndexId>,
    /// Set by the checks: how filters compare because of the indexes that are read.
    pub collations: Vec<IndexCollation>,
}

/// `token(...) > ?` and the like.
#[derive(Clone, Debug, Default)]
pub struct TokenRestriction {
    pub start: Option<(Expression, bool)>,
    pub end: Option<(Expression, bool)>,
    is_equal: bool,
}

/// Rules that decide which restrictions a statement may have.
#[derive(Clone, Copy, Debug)]
pub struct WhereRules {
    pub kind: StatementKind,
    /// The statement selects or modifies static columns only.
    pub is_static_only: bool,
    pub allows_filtering: bool,
    /// Filtering needs no leave on this table.
    pub filters_freely: bool,
    /// True if secondary indexes may serve the statement.
    pub uses_indexes: bool,
    /// Column that rows are ordered by, if by nearness to a vector.
    pub nearest: Option<NearestColumn>,
}

/// True if any restriction of the clause has an index.
#[derive(Clone, Copy, Debug)]
struct Indexed(bool);

/// Relations are compared with each other, and each filter looks at each row, which is not cut into steps.
const RELATIONS_MAX: usize = 1_000;

pub const REQUIRES_ALLOW_FILTERING: &str = "Cannot execute this query as it might involve data filtering and thus \
     may have unpredictable performance. If you want to execute this query despite the performance \
     unpredictability, use ALLOW FILTERING";

impl WhereClause {
    pub fn prepare(typing: &Typing<'_>, relations: &[Relation], rules: WhereRules) -> Result<Self, CqlError> {
        if relations.len() > RELATIONS_MAX {
            return Err(invalid!(
                "A WHERE clause has at most {RELATIONS_MAX} relations, this one has {}",
                relations.len()
            ));
        }
        let mut clause = WhereClause::default();
        let mut expressions = Vec::new();
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
                    if rules.kind != StatementKind::Select {
                        return Err(invalid!(
                            "Custom index expressions cannot be used in WHERE clauses for UPDATE or DELETE statements"
                        ));
                    }
                    expressions.push(index);
                }
                Relation::Token {
                    columns,
                    operator,
                    value,
                } => {
                    clause.add_token(typing, relation, columns, *operator, value)?;
                }
                _ => clause.add(typing.scope.table, restriction(typing, relation)?, rules)?,
            }
        }
        check_expressions(typing.scope.table, &expressions)?;
        clause.check(typing.scope.table, rules)?;
        Ok(clause)
    }

    /// All checks on what stands together.
    pub fn check(&mut self, table: &TableMetadata, rules: WhereRules) -> Result<(), CqlError> {
        let is_indexed = |restrictions: &[Restriction]| {
            rules.uses_indexes
                && restrictions
                    .iter()
                    .any(|restriction| has_index(table, restriction))
        };
        let is_clustering_indexed = is_indexed(&self.clustering);
        let is_nearest_indexed = rules.nearest.is_some_and(|nearest| nearest.is_indexed);
        let indexed = Indexed(
            is_clustering_indexed
                || is_nearest_indexed
                || is_indexed(&self.partition)
                || is_indexed(&self.others),
        );
        self.check_partition(table, rules, indexed)?;
        let filters_partition = self.uses_index || self.needs_partition_filtering(table);
        self.check_clustering(table, rules, indexed)?;
        self.uses_index |= self.is_key_range && is_clustering_indexed;
        let filters_clustering = self.uses_index || !self.is_clustering_prefix();
        self.check_vectors(table, rules)?;
        self.check_others(rules, indexed)?;
        if self.uses_index && self.has_key_in() {
            return Err(invalid!(
                "Select on indexed columns and with IN clause for the PRIMARY KEY are not supported"
            ));
        }
        if rules.kind == StatementKind::Select {
            self.note_filtering(table, rules, (filters_partition, filters_clustering));
        }
        Ok(())
    }

    /// Cassandra's `needFiltering`: what indexes leave to be looked at, of the restrictions that are not met by reading
    /// from one place to another.
    fn note_filtering(
        &mut self,
        table: &TableMetadata,
        rules: WhereRules,
        (partition, clustering): (bool, bool),
    ) {
        let filtered: [(bool, &[Restriction]); 3] = [
            (partition, &self.partition),
            (clustering, &self.clustering),
            (true, &self.others),
        ];
        let filtered = filtered.into_iter().filter(|(is_filtered, _)| *is_filtered);
        let filtered: Vec<&Restriction> = filtered.flat_map(|(_, restrictions)| restrictions).collect();
        let reads = IndexReads::of(rules.nearest);
        let needs_filtering = match (rules.nearest, filtered.is_empty()) {
            (None, true) => !self.clustering.is_empty(),
            (Some(nearest), true) => !nearest.is_indexed,
            (Some(nearest), false) if !nearest.is_indexed => true,
            (_, false) => needs_filtering(table, &filtered, reads),
        };
        let needed_indexes = match self.uses_index {
            true => chosen(table, &filtered, reads)
                .iter()
                .map(|index| index.id)
                .collect(),
            false => Vec::new(),
        };
        let collations = match table.indexes.is_empty() {
            true => Vec::new(),
            false => collations(table, &filtered, reads),
        };
        self.needs_filtering = needs_filtering;
        self.needed_indexes = needed_indexes;
        self.collations = collations;
    }

    /// The columns that are restricted, but for those within `token`.
    pub fn column_names(&self) -> impl Iterator<Item = &str> {
        let restrictions = self.partition.iter().chain(&self.clustering).chain(&self.others);
        restrictions
            .flat_map(|restriction| &restriction.columns)
            .map(RestrictedColumn::name)
    }

    /// Adds the restriction of an INSERT's value for a key column.
    pub fn add(
        &mut self,
        table: &TableMetadata,
        restriction: Restriction,
        rules: WhereRules,
    ) -> Result<(), CqlError> {
        match restriction.first().column.kind {
            ColumnKind::PartitionKey => merge_into(&mut self.partition, restriction),
            ColumnKind::Clustering => self.add_clustering(table, restriction, rules),
            ColumnKind::Static | ColumnKind::Regular => merge_into(&mut self.others, restriction),
        }
    }

    fn add_clustering(
        &mut self,
        table: &TableMetadata,
        new: Restriction,
        rules: WhereRules,
    ) -> Result<(), CqlError> {
        let needs_no_prefix = rules.allows_filtering || (rules.uses_indexes && has_index(table, &new));
        let (new_first, new_is_slice) = (new.first().clone(), new.is_slice());
        let last = self
            .clustering
            .last()
            .map(|last| (last.first().clone(), last.is_slice()));
        merge_into(&mut self.clustering, new)?;
        let Some((last, last_is_slice)) = last.filter(|_| !needs_no_prefix) else {
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
    fn check_partition(
        &mut self,
        table: &TableMetadata,
        rules: WhereRules,
        Indexed(is_indexed): Indexed,
    ) -> Result<(), CqlError> {
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
        self.uses_index = is_indexed && self.partition.is_empty() && self.token.is_none();
        if self.needs_partition_filtering(table) {
            if !rules.allows_filtering && !rules.filters_freely && !is_indexed {
                return Err(invalid!("{REQUIRES_ALLOW_FILTERING}"));
            }
            self.is_key_range = true;
            self.uses_index = is_indexed;
        }
        debug_assert!(
            self.is_key_range || is_complete,
            "keys are given in full or not at all"
        );
        Ok(())
    }

    /// Returns whether the partitions are those of a range of tokens. A token restriction beside a whole key only sorts out
    /// keys.
    pub(crate) fn is_on_token(&self, table: &TableMetadata) -> bool {
        self.token.is_some() && self.partition.len() < table.partition_key().len()
    }

    /// Returns whether restrictions on the partition key can only be met by looking at partitions.
    pub(crate) fn needs_partition_filtering(&self, table: &TableMetadata) -> bool {
        !self.partition.is_empty()
            && (self.partition.len() < table.partition_key().len()
                || self
                    .partition
                    .iter()
                    .any(|restriction| restriction.is_slice() || restriction.is_contains()))
    }

    fn check_clustering(
        &mut self,
        table: &TableMetadata,
        rules: WhereRules,
        indexed: Indexed,
    ) -> Result<(), CqlError> {
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
            StatementKind::Select | StatementKind::Delete => {
                self.check_clustering_prefix(table, rules, indexed)
            }
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

    fn check_clustering_prefix(
        &mut self,
        table: &TableMetadata,
        rules: WhereRules,
        Indexed(is_indexed): Indexed,
    ) -> Result<(), CqlError> {
        let has_contains = self.clustering.iter().any(Restriction::is_contains);
        if has_contains && !rules.allows_filtering && !is_indexed {
            return Err(invalid!(
                "Clustering columns can only be restricted with CONTAINS with a secondary index or filtering"
            ));
        }
        if self.is_clustering_prefix() {
            return Ok(());
        }
        self.uses_index |= is_indexed;
        if rules.allows_filtering || is_indexed {
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

    pub(crate) fn is_clustering_prefix(&self) -> bool {
        self.clustering_prefix_length() == self.clustering.len()
    }

    /// How many of the clustering restrictions make up the slices; the others filter.
    pub(crate) fn clustering_prefix_length(&self) -> usize {
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

    fn check_others(&mut self, rules: WhereRules, Indexed(is_indexed): Indexed) -> Result<(), CqlError> {
        if self.others.is_empty() && rules.nearest.is_none() {
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
        self.uses_index |= is_indexed;
        if !is_indexed && !rules.allows_filtering && !rules.filters_freely {
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

    /// Returns whether one relation fixes the column's value.
    pub(crate) fn is_equal(&self, column: &ColumnMetadata) -> bool {
        self.partition.iter().chain(&self.clustering).any(|restriction| {
            restriction.is_equal()
                && restriction
                    .columns
                    .iter()
                    .any(|other| other.column.id == column.id)
        })
    }

    pub(crate) fn has_key_in(&self) -> bool {
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
            fn key(restriction: &Restriction) -> (usize, &str) {
                (restriction.first_position(), restriction.first().name())
            }
            let place = restrictions.partition_point(|earlier| key(earlier) <= key(&new));
            restrictions.insert(place, new);
        }
    }
    Ok(())
}

impl HeapBytes for WhereClause {
    fn heap_bytes(&self) -> usize {
        self.partition.heap_bytes()
            + self.token.heap_bytes()
            + self.clustering.heap_bytes()
            + self.others.heap_bytes()
            + flat_bytes(&self.needed_indexes)
            + flat_bytes(&self.collations)
    }
}

impl HeapBytes for TokenRestriction {
    fn heap_bytes(&self) -> usize {
        let bounds = [&self.start, &self.end].into_iter().flatten();
        bounds.map(|(bound, _)| bound.heap_bytes()).sum()
    }
}
