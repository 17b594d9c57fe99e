//! (room of the house: storage)
