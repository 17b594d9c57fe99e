//! The node's identity: chosen once per data folder, told to drivers in `system.local`.

use std::io;
use std::path::Path;

use helenus_vfs::{Disk, Random};
use uuid::{Builder, Uuid};

const FILE: &str = "host-id";

/// Reads the identity, or makes it, durable with the names in the folder. A file that does not hold one is an error: drivers would see another node.
pub fn load_or_create(disk: &dyn Disk, random: &dyn Random, root: &Path) -> io::Result<Uuid> {
    let path = root.join(FILE);
    if disk.exists(&path)? {
        let file = disk.open(&path)?;
        let mut text = [0; uuid::fmt::Hyphenated::LENGTH];
        file.read_exact_at(0, &mut text)?;
        let text = str::from_utf8(&text).map_err(io::Error::other)?;
        return Uuid::try_parse(text).map_err(io::Error::other);
    }
    let host_id = new_host_id(random);
    let temporary = root.join("host-id.tmp");
    if disk.exists(&temporary)? {
        // A crash came before it got its name.
        disk.remove(&temporary)?;
    }
    let file = disk.create(&temporary)?;
    file.append(host_id.hyphenated().to_string().as_bytes())?;
    file.sync_data()?;
    disk.rename(&temporary, &path)?;
    Ok(host_id)
}

/// A random one.
pub fn new_host_id(random: &dyn Random) -> Uuid {
    let mut bytes = [0; 16];
    random.fill(&mut bytes);
    Builder::from_random_bytes(bytes).into_uuid()
}
