//! Random writes and reads against a model that keeps every write.

use std::collections::BTreeMap;
use std::sync::Arc;

use helenus_rows::update::Update;
use helenus_schema::TableParams;
use helenus_storage::ShardStore;
use helenus_storage::store::StoreOptions;
use helenus_vfs::SeededRandom;

use super::naive::NaivePartition;
use super::writes::{NOW_S, Writer};

#[test]
fn memtables_answer_as_the_model_does() {
    for seed in 0..150 {
        let schema = super::table::schema(TableParams::default());
        let metadata = Arc::clone(schema.tables().next().unwrap());
        let options = StoreOptions {
            read_step_units_max: [1, 2, 7, 512][seed as usize % 4],
            ..StoreOptions::default()
        };
        let mut store = ShardStore::in_memory(options, &schema);
        let key_bound = [3, 5, 12][seed as usize % 3];
        let writer = Writer {
            random: SeededRandom::new(seed),
            key_bound,
            timestamp_from_us: 1,
            timestamp_spread_us: 30,
            is_plain: false,
        };
        let mut model: BTreeMap<Vec<u8>, NaivePartition> = BTreeMap::new();
        for _ in 0..120 {
            let key = vec![writer.below(3) as u8; 4];
            let write = writer.write();
            let bytes = write.encode(metadata.id, &key);
            store.apply(&Update::decode(&bytes).unwrap()).unwrap();
            model.entry(key).or_default().writes.push(write);
        }
        for _ in 0..8 {
            let now_s = NOW_S - 5 + writer.below(10) as u32;
            super::check::check(
                &mut store,
                &metadata,
                &model,
                &writer.slices(),
                writer.below(2) == 0,
                now_s,
            );
        }
    }
}
