//! (room of the house: vfs)
