//! Promises of every disk, checked on all three.

use std::io;
use std::path::{Path, PathBuf};

use helenus_vfs::{Disk, EntryKind, MemoryDisk, RealDisk, SimulatedDisk};

/// Removed from the real disk when dropped.
struct Folder {
    path: PathBuf,
    is_real: bool,
}

impl std::ops::Deref for Folder {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.is_real {
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// A new empty folder on each kind of disk.
fn disks() -> Vec<(Box<dyn Disk>, Folder)> {
    let unique = format!(
        "helenus-vfs-{}-{:?}",
        std::process::id(),
        std::thread::current().id()
    );
    let real = std::env::temp_dir().join(unique);
    let _ = std::fs::remove_dir_all(&real);
    std::fs::create_dir(&real).unwrap();
    let memory = MemoryDisk::new();
    memory.create_dir_all(Path::new("/data")).unwrap();
    let folder = |path, is_real| Folder { path, is_real };
    let simulated = SimulatedDisk::new(1);
    simulated.set_half_resident(true);
    simulated.create_dir_all(Path::new("/data")).unwrap();
    vec![
        (Box::new(RealDisk::new()), folder(real, true)),
        (Box::new(memory), folder(PathBuf::from("/data"), false)),
        (Box::new(simulated), folder(PathBuf::from("/data"), false)),
    ]
}

#[test]
fn what_is_resident_is_what_was_written() {
    let mut found = 0;
    for (disk, folder) in disks() {
        let file = disk.create(&folder.join("file")).unwrap();
        let written: Vec<u8> = (0..20_000_u32).map(|at| ((at * 7) >> 3) as u8).collect();
        file.append(&written).unwrap();
        for offset in (0..25_000).step_by(1_000) {
            let mut buffer = vec![0; 5_000];
            let Ok(count) = file.read_resident_at(offset as u64, &mut buffer) else {
                continue;
            };
            let rest = written.get(offset..).unwrap_or_default();
            assert!(count <= rest.len(), "{disk:?}");
            assert_eq!(buffer[..count], rest[..count], "{disk:?}");
            found += 1;
        }
    }
    // The simulated disk has half of it.
    assert!(found > 5, "{found}");
    let memory = MemoryDisk::resident();
    let file = memory.create(Path::new("/file")).unwrap();
    file.append(b"all of it").unwrap();
    assert_eq!(file.read_resident_at(4, &mut [0; 2]).unwrap(), 2);
}

#[test]
fn bytes_are_read_back() {
    for (disk, folder) in disks() {
        let file = disk.create(&folder.join("file")).unwrap();
        file.append(b"hello ").unwrap();
        file.append(b"world").unwrap();
        file.write_at(0, b"J").unwrap();
        file.write_at(13, b"!").unwrap();
        file.sync_data().unwrap();
        assert_eq!(file.length().unwrap(), 14);
        let mut bytes = [9; 14];
        disk.open(&folder.join("file"))
            .unwrap()
            .read_exact_at(0, &mut bytes)
            .unwrap();
        assert_eq!(&bytes, b"Jello world\0\0!", "{disk:?}");
        assert_eq!(file.read_at(14, &mut bytes).unwrap(), 0);
        assert_eq!(
            file.read_exact_at(10, &mut bytes).unwrap_err().kind(),
            io::ErrorKind::UnexpectedEof
        );
        file.set_length(4).unwrap();
        file.append(b"y").unwrap();
        let mut bytes = [0; 5];
        file.read_exact_at(0, &mut bytes).unwrap();
        assert_eq!(&bytes, b"Jelly");
        let usage = disk.usage();
        assert!(
            usage.reads >= 3 && usage.written_bytes == 14 && usage.syncs == 1,
            "{usage:?}"
        );
    }
}

#[test]
fn names_are_made_renamed_linked_and_removed() {
    for (disk, folder) in disks() {
        let (a, b, c) = (folder.join("a"), folder.join("b"), folder.join("c"));
        disk.create(&a).unwrap().append(b"1").unwrap();
        assert_eq!(disk.create(&a).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        disk.create(&b).unwrap();
        disk.rename(&a, &b).unwrap();
        disk.hard_link(&b, &c).unwrap();
        assert_eq!(disk.open(&a).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(disk.open(&c).unwrap().length().unwrap(), 1);
        disk.create_dir_all(&folder.join("sub/subsub")).unwrap();
        disk.create_dir_all(&folder.join("sub/subsub")).unwrap();
        let names: Vec<_> = disk
            .list(&folder)
            .unwrap()
            .into_iter()
            .map(|entry| (entry.name, entry.kind))
            .collect();
        let expected = [
            ("b", EntryKind::File),
            ("c", EntryKind::File),
            ("sub", EntryKind::Directory),
        ]
        .map(|(n, k)| (n.to_owned(), k));
        assert_eq!(names, expected);
        assert!(disk.remove_directory(&folder.join("sub")).is_err(), "not empty");
        disk.remove_directory(&folder.join("sub/subsub")).unwrap();
        let open = disk.open(&b).unwrap();
        disk.remove(&b).unwrap();
        disk.sync_directory(&folder).unwrap();
        assert_eq!(open.length().unwrap(), 1, "an open handle outlives the name");
        assert!(!disk.exists(&b).unwrap() && disk.exists(&c).unwrap());
        assert!(disk.free_bytes(&folder).unwrap() > 0);
    }
}

#[test]
fn a_folder_is_locked_once() {
    for (disk, folder) in disks() {
        let lock = disk.lock_directory(&folder).unwrap();
        assert_eq!(
            disk.lock_directory(&folder).unwrap_err().kind(),
            io::ErrorKind::WouldBlock
        );
        drop(lock);
        disk.lock_directory(&folder).unwrap();
    }
}
