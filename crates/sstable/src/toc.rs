//! TOC.txt: the names of an SSTable's components, one a line.

use std::path::Path;

use helenus_vfs::Disk;

use crate::component::Component;
use crate::component_writer::{ComponentFile, write_component};
use crate::descriptor::Descriptor;
use crate::directory::unfinished_toc_path;
use crate::error::WriteError;
use crate::sidecar::SidecarFault;

/// The list of an SSTable's components, whose appearance makes it one.
pub(crate) struct Toc<'a> {
    disk: &'a dyn Disk,
    directory: &'a Path,
    descriptor: Descriptor,
    components: Vec<Component>,
    disk_bytes: u64,
}

impl<'a> Toc<'a> {
    pub fn new(disk: &'a dyn Disk, directory: &'a Path, descriptor: Descriptor) -> Self {
        Toc {
            disk,
            directory,
            descriptor,
            components: Vec::new(),
            disk_bytes: 0,
        }
    }

    /// A component that was written and is durable.
    pub fn note(&mut self, component: Component, length: u64) {
        self.components.push(component);
        self.disk_bytes += length;
    }

    pub fn write(&mut self, component: Component, bytes: &[u8]) -> Result<(), WriteError> {
        write_component(self.disk, self.directory, self.descriptor, component, bytes)?;
        self.note(component, bytes.len() as u64);
        Ok(())
    }

    /// Writes a component that the SSTable is whole without, or returns why it is left out.
    pub fn write_sidecar(&mut self, component: Component, bytes: &[u8]) -> Option<SidecarFault> {
        let error = self.write(component, bytes).err()?;
        // What cannot be removed is not named here, and is refused when it is opened.
        let _left = self.disk.remove(&self.descriptor.path(self.directory, component));
        Some(SidecarFault::new(component, error))
    }

    /// Returns the size of all components. Their names are durable before the TOC has its own.
    pub fn seal(mut self) -> Result<u64, WriteError> {
        self.components.push(Component::Toc);
        let text: String = self
            .components
            .iter()
            .map(|component| format!("{}\n", component.file_suffix()))
            .collect();
        let unfinished = unfinished_toc_path(self.directory, self.descriptor);
        let mut file = ComponentFile::create(self.disk, unfinished)?;
        file.append(text.as_bytes())?;
        let length = file.finish()?;
        self.disk
            .sync_directory(self.directory)
            .map_err(|source| WriteError::Io {
                file: self.directory.to_path_buf(),
                source,
            })?;
        Ok(self.disk_bytes + length)
    }
}
