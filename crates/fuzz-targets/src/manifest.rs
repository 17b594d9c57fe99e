//! A snapshot's `manifest.json`.

use std::path::Path;

use helenus_tools::snapshot::{MANIFEST, Manifest};
use helenus_vfs::{Disk, MemoryDisk};

pub fn run(bytes: &[u8]) {
    let disk = MemoryDisk::new();
    let folder = Path::new("/snapshot");
    disk.create_dir_all(folder).expect("a memory disk has room");
    let file = disk.create(&folder.join(MANIFEST)).expect("the folder is empty");
    file.append(bytes).expect("a memory disk has room");
    if let Ok(Some(manifest)) = Manifest::load(&disk, folder) {
        // What the list of snapshots shows.
        let _ = manifest.created_at();
        manifest.store(&disk, folder).expect("a memory disk has room");
        let again = Manifest::load(&disk, folder).expect("what was stored can be read");
        assert_eq!(again, Some(manifest));
    }
}

pub fn corpus() -> Vec<(String, Vec<u8>)> {
    let texts = [
        (
            "full",
            r#"{"files":["nb-1-big-Data.db","da-2-bti-Data.db"],"created_at":"2024-02-29T12:00:00.000Z","expires_at":null,"ephemeral":false}"#,
        ),
        ("old", r#"{"files":["me-1-big-Data.db"]}"#),
        (
            "number",
            r#"{"files":[],"created_at":1.709208e9,"expires_at":"2025-01-01T00:00:00Z","ephemeral":true}"#,
        ),
    ];
    let inputs = texts.map(|(name, text)| (name.to_owned(), text.as_bytes().to_vec()));
    inputs.to_vec()
}
