//! Content that a table must have: the effects of acknowledged statements, and any of those of the others.

use std::collections::{BTreeMap, BTreeSet};

/// Long, and shown short.
#[derive(Clone, PartialEq, Eq)]
pub struct Text(pub String);

pub type Partition = BTreeMap<i32, Row>;

#[derive(Clone, Default, PartialEq, Eq)]
pub struct Row {
    /// True if an INSERT made it, so that it exists without values.
    pub is_inserted: bool,
    pub v: Option<Text>,
    pub w: Option<i32>,
}

/// Effect of one statement on one partition. Timestamps grow from statement to statement, so effects that survive are
/// applied in the order in which the statements were sent.
#[derive(Clone, Debug)]
pub enum Effect {
    Insert { c: i32, v: Text, w: i32 },
    Update { c: i32, w: i32 },
    DeleteRow { c: i32 },
    DeleteFrom { c: i32 },
    DeletePartition,
}

#[derive(Clone, Debug, Default)]
pub struct Table {
    pub partitions: BTreeMap<i32, Partition>,
    /// Statements since the last start, oldest first.
    pub sent: Vec<Sent>,
}

/// The part of a statement that goes to one partition; atomic.
#[derive(Clone, Debug)]
pub struct Sent {
    pub statement: usize,
    pub partition: i32,
    pub effects: Vec<Effect>,
    pub is_acknowledged: bool,
    /// All parts of the statement are there or none.
    pub is_whole: bool,
}

/// Unacknowledged statements per partition, and atomic ones of all partitions, of which all combinations are tried.
const UNCERTAIN_MAX: usize = 12;

impl std::fmt::Debug for Text {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let end = self.0.find('x').unwrap_or(self.0.len());
        write!(out, "{} and {} x", &self.0[..end], self.0.len() - end)
    }
}

impl std::fmt::Debug for Row {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "v = {:?}, w = {:?}", self.v, self.w)
    }
}

impl Effect {
    /// The one row that it is about.
    pub fn row(&self) -> Option<i32> {
        match self {
            Effect::Insert { c, .. } | Effect::Update { c, .. } | Effect::DeleteRow { c } => Some(*c),
            Effect::DeleteFrom { .. } | Effect::DeletePartition => None,
        }
    }

    fn apply(&self, partition: &mut Partition) {
        match self {
            Effect::Insert { c, v, w } => {
                let row = partition.entry(*c).or_default();
                *row = Row {
                    is_inserted: true,
                    v: Some(v.clone()),
                    w: Some(*w),
                };
            }
            Effect::Update { c, w } => partition.entry(*c).or_default().w = Some(*w),
            Effect::DeleteRow { c } => drop(partition.remove(c)),
            Effect::DeleteFrom { c } => partition.retain(|row, _| row < c),
            Effect::DeletePartition => partition.clear(),
        }
    }
}

impl Table {
    pub fn acknowledge(&mut self, statement: usize) {
        for sent in self.sent.iter_mut().filter(|sent| sent.statement == statement) {
            sent.is_acknowledged = true;
        }
    }

    /// Nothing of a statement was done.
    pub fn refuse(&mut self, statement: usize) {
        self.sent.retain(|sent| sent.statement != statement);
    }

    /// The statements since the last start that are acknowledged.
    pub fn acknowledged(&self) -> BTreeSet<usize> {
        let acknowledged = self.sent.iter().filter(|sent| sent.is_acknowledged);
        acknowledged.map(|sent| sent.statement).collect()
    }

    /// How many statements since the last start are not acknowledged.
    pub fn uncertain(&self) -> usize {
        let uncertain = self.sent.iter().filter(|sent| !sent.is_acknowledged);
        let uncertain: BTreeSet<usize> = uncertain.map(|sent| sent.statement).collect();
        uncertain.len()
    }

    /// Checks that a read may have found this in a partition: all of the statements that were acknowledged before it was sent,
    /// and any of the others. Row by row, because a read of several steps sees behind its place what was written meanwhile
    /// (decision 9). What too many others can explain is taken as explained.
    pub(crate) fn explain_read(
        &self,
        partition: i32,
        found: &Partition,
        acknowledged_before: &BTreeSet<usize>,
    ) -> Result<(), String> {
        let before = self.partitions.get(&partition).cloned().unwrap_or_default();
        let of_partition: Vec<Sent> = self
            .sent
            .iter()
            .filter(|sent| sent.partition == partition)
            .map(|sent| Sent {
                is_acknowledged: acknowledged_before.contains(&sent.statement),
                ..sent.clone()
            })
            .collect();
        let of_partition: Vec<&Sent> = of_partition.iter().collect();
        if of_partition.iter().filter(|sent| !sent.is_acknowledged).count() > UNCERTAIN_MAX {
            return Ok(());
        }
        let mut rows: BTreeSet<i32> = before.keys().chain(found.keys()).copied().collect();
        rows.extend(
            of_partition
                .iter()
                .flat_map(|sent| &sent.effects)
                .filter_map(Effect::row),
        );
        let only = |partition: &Partition, row: i32| -> Partition {
            let row = partition.get_key_value(&row);
            row.map(|(c, row)| (*c, row.clone())).into_iter().collect()
        };
        let is_explained = rows.iter().all(|&row| {
            let found = only(found, row);
            let mut of_row: Vec<Sent> = of_partition.iter().map(|&sent| sent.clone()).collect();
            for sent in &mut of_row {
                sent.effects
                    .retain(|effect| effect.row().is_none_or(|other| other == row));
            }
            let of_row: Vec<&Sent> = of_row.iter().collect();
            explain_partition(&only(&before, row), &of_row, &found, |_| None).is_some()
        });
        if is_explained {
            Ok(())
        } else {
            Err(describe(partition, &before, &of_partition, found))
        }
    }

    /// Returns whether every statement since the last start is acknowledged.
    pub fn is_certain(&self) -> bool {
        self.sent.iter().all(|sent| sent.is_acknowledged)
    }

    /// All statements since the last start are acknowledged.
    pub fn make_certain(&mut self) {
        for sent in std::mem::take(&mut self.sent) {
            let partition = self.partitions.entry(sent.partition).or_default();
            sent.effects.iter().for_each(|effect| effect.apply(partition));
        }
    }

    /// Finds the combination of unacknowledged statements that explains `found` and makes it certain.
    pub fn explain(&mut self, found: &BTreeMap<i32, Partition>) -> Result<(), String> {
        let sent = std::mem::take(&mut self.sent);
        let mut keys: Vec<i32> = self.partitions.keys().chain(found.keys()).copied().collect();
        keys.extend(sent.iter().map(|sent| sent.partition));
        keys.sort_unstable();
        keys.dedup();
        // Of several partitions, so that what one of them says binds the others.
        let mut atomic: Vec<usize> = sent
            .iter()
            .filter(|sent| sent.is_whole && !sent.is_acknowledged)
            .map(|sent| sent.statement)
            .collect();
        atomic.sort_unstable();
        atomic.dedup();
        assert!(
            atomic.len() <= UNCERTAIN_MAX,
            "the workload keeps few statements under way"
        );
        let mut nearest: Option<(usize, String)> = None;
        for survivors in 0..1_u32 << atomic.len() {
            let decided = |statement: usize| {
                let place = atomic.iter().position(|&other| other == statement)?;
                Some(survivors & (1 << place) != 0)
            };
            match self.explain_partitions(&keys, &sent, found, decided) {
                Ok(explained) => {
                    self.partitions.extend(explained);
                    return Ok(());
                }
                Err(error) => nearest = nearest.max(Some(error)),
            }
        }
        Err(nearest.map_or_else(String::new, |(_, error)| error))
    }

    /// The error says how many partitions were explained, and of the first that was not why.
    fn explain_partitions(
        &self,
        keys: &[i32],
        sent: &[Sent],
        found: &BTreeMap<i32, Partition>,
        decided: impl Fn(usize) -> Option<bool>,
    ) -> Result<BTreeMap<i32, Partition>, (usize, String)> {
        let mut explained = BTreeMap::new();
        for &key in keys {
            let before = self.partitions.get(&key).cloned().unwrap_or_default();
            let of_partition: Vec<&Sent> = sent.iter().filter(|sent| sent.partition == key).collect();
            let found = visible(found.get(&key).cloned().unwrap_or_default());
            let partition = explain_partition(&before, &of_partition, &found, &decided)
                .ok_or_else(|| (explained.len(), describe(key, &before, &of_partition, &found)))?;
            explained.insert(key, partition);
        }
        Ok(explained)
    }

    /// An unacknowledged TRUNCATE may have removed any of what there was, and made up nothing.
    pub fn explain_truncated(&mut self, found: &BTreeMap<i32, Partition>) -> Result<(), String> {
        for (key, partition) in found {
            for (c, row) in partition {
                let known = self.partitions.get(key).and_then(|partition| partition.get(c));
                let is_part = known.is_some_and(|known| {
                    (row.v.is_none() || row.v == known.v) && (row.w.is_none() || row.w == known.w)
                });
                if !is_part {
                    return Err(format!(
                        "partition {key} row {c}: {row:?} was never written; {known:?} was"
                    ));
                }
            }
        }
        self.partitions = found.clone();
        Ok(())
    }
}

/// `decided` says of a statement whether it survived, where that is not open.
fn explain_partition(
    before: &Partition,
    sent: &[&Sent],
    found: &Partition,
    decided: impl Fn(usize) -> Option<bool>,
) -> Option<Partition> {
    let uncertain: Vec<usize> = (0..sent.len())
        .filter(|&index| !sent[index].is_acknowledged && decided(sent[index].statement).is_none())
        .collect();
    assert!(
        uncertain.len() <= UNCERTAIN_MAX,
        "the workload keeps few statements under way"
    );
    (0..1_u32 << uncertain.len()).find_map(|survivors| {
        let mut partition = before.clone();
        for (index, sent) in sent.iter().enumerate() {
            let place = uncertain.iter().position(|&other| other == index);
            let survived = match place {
                Some(place) => survivors & (1 << place) != 0,
                None => sent.is_acknowledged || decided(sent.statement) == Some(true),
            };
            if survived {
                sent.effects
                    .iter()
                    .for_each(|effect| effect.apply(&mut partition));
            }
        }
        (visible(partition.clone()) == *found).then_some(partition)
    })
}

/// As a client sees it: whether a row was inserted does not show.
fn visible(mut partition: Partition) -> Partition {
    partition.values_mut().for_each(|row| row.is_inserted = false);
    partition
}

fn describe(key: i32, before: &Partition, sent: &[&Sent], found: &Partition) -> String {
    format!(
        "partition {key} is not explained by what was sent\nbefore: {before:#?}\nsent: {sent:#?}\nfound: {found:#?}"
    )
}
