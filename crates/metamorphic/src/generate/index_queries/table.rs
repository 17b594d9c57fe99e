//! The table of a history, and the indexes that it has at the moment.

use helenus_storage_model::Chance;

use super::super::KEYSPACE;
use super::folding::Folding;
use super::literals::{Scalar, Type};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    PartitionKey,
    Clustering,
    Static,
    Regular,
}

pub struct Column {
    pub name: String,
    pub cql_type: Type,
    pub place: Place,
    pub indexes: Vec<Index>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    pub name: String,
    pub is_attached: bool,
    /// How it makes texts alike; a column of such an index has no other.
    pub folding: Option<Folding>,
    pub target: Target,
}

/// Part of a column that an index is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The value, or the whole of a frozen collection.
    Value,
    Elements,
    Keys,
    Entries,
}

pub struct Table {
    /// Qualified.
    pub name: String,
    pub columns: Vec<Column>,
    /// Values of the first column of its partition key, or of its last clustering column: with many, an index narrows.
    pub keys: u64,
    indexes_made: u32,
    /// All its indexes are attached ones, and those of texts make them alike.
    pub folds: bool,
}

/// Targets of the indexes of a map, in the order of `Target`s.
const TARGETS_OF_MAPS: [Target; 3] = [Target::Elements, Target::Keys, Target::Entries];

impl Table {
    pub fn new(chance: &Chance) -> Table {
        let mut columns = vec![Column::of("p", Type::Scalar(Scalar::Int), Place::PartitionKey)];
        if chance.one_in(3) {
            let cql_type = Type::Scalar(Scalar::of_key(chance));
            columns.push(Column::of("q", cql_type, Place::PartitionKey));
        }
        for number in 0..chance.count(3) {
            let cql_type = Type::Scalar(Scalar::of_key(chance));
            columns.push(Column::of(&format!("c{number}"), cql_type, Place::Clustering));
        }
        if columns.iter().any(|column| column.place == Place::Clustering) && chance.one_in(2) {
            columns.push(Column::of("s", Type::any(chance), Place::Static));
        }
        for number in 0..1 + chance.count(4) {
            columns.push(Column::of(
                &format!("v{number}"),
                Type::any(chance),
                Place::Regular,
            ));
        }
        Table {
            name: format!("{KEYSPACE}.t"),
            columns,
            keys: *chance.pick(&[3, 6, 20, 60]),
            indexes_made: 0,
            folds: chance.one_in(4),
        }
    }

    pub fn of_place(&self, place: Place) -> impl Iterator<Item = &Column> {
        self.columns.iter().filter(move |column| column.place == place)
    }

    pub fn create(&self) -> String {
        let columns: Vec<String> = self
            .columns
            .iter()
            .map(|column| {
                let suffix = if column.place == Place::Static {
                    " static"
                } else {
                    ""
                };
                format!("{} {}{suffix}", column.name, column.cql_type.name())
            })
            .collect();
        let names = |place| {
            let names: Vec<&str> = self.of_place(place).map(|column| &*column.name).collect();
            names.join(", ")
        };
        let clustering = names(Place::Clustering);
        let separator = if clustering.is_empty() { "" } else { ", " };
        format!(
            "CREATE TABLE {} ({}, PRIMARY KEY (({}){separator}{clustering}))",
            self.name,
            columns.join(", "),
            names(Place::PartitionKey)
        )
    }

    /// The statement that makes one more index; none where the column that came up has all that it may have.
    pub fn create_index(&mut self, chance: &Chance) -> Option<String> {
        let has_one_key = self.of_place(Place::PartitionKey).count() == 1;
        let place = chance.count(self.columns.len());
        let name = format!("i{}", self.indexes_made);
        let table = self.name.clone();
        let column = &mut self.columns[place];
        if has_one_key && column.place == Place::PartitionKey {
            return None;
        }
        let can_be_attached = column
            .cql_type
            .scalars()
            .iter()
            .all(|scalar| scalar.can_be_attached());
        let is_attached = can_be_attached && (self.folds || chance.one_in(2));
        if self.folds && !is_attached {
            return None;
        }
        if column
            .indexes
            .iter()
            .any(|index| index.is_attached == is_attached)
        {
            return None;
        }
        let (target, text) = column.target(chance);
        let using = match is_attached {
            true => format!(" USING '{}'", chance.pick(&["sai", "StorageAttachedIndex"])),
            false => String::new(),
        };
        let can_fold = column.cql_type == Type::Scalar(Scalar::Text)
            && matches!(column.place, Place::Static | Place::Regular);
        let folding = (self.folds && can_fold).then(|| Folding::any(chance));
        column.indexes.push(Index {
            name: name.clone(),
            is_attached,
            folding,
            target,
        });
        self.indexes_made += 1;
        let options = folding.map(Folding::options).unwrap_or_default();
        Some(format!("CREATE INDEX {name} ON {table} ({text}){using}{options}"))
    }

    pub fn drop_index(&mut self, chance: &Chance) -> Option<String> {
        let place = chance.count(self.columns.len());
        let index = self.columns[place].indexes.pop()?;
        Some(format!("DROP INDEX {KEYSPACE}.{}", index.name))
    }
}

impl Column {
    fn of(name: &str, cql_type: Type, place: Place) -> Column {
        Column {
            name: name.to_owned(),
            cql_type,
            place,
            indexes: Vec::new(),
        }
    }

    fn target(&self, chance: &Chance) -> (Target, String) {
        let name = &self.name;
        match &self.cql_type {
            Type::Scalar(_) => (Target::Value, name.clone()),
            Type::List(_) | Type::Set(_) => (Target::Elements, format!("values({name})")),
            Type::Map(..) => {
                let target = *chance.pick(&TARGETS_OF_MAPS);
                let function = match target {
                    Target::Keys => "keys",
                    Target::Entries => "entries",
                    _ => "values",
                };
                (target, format!("{function}({name})"))
            }
            _ => (Target::Value, format!("full({name})")),
        }
    }
}
