//! (room of the house: protocol)
