//! (room of the house: node)
