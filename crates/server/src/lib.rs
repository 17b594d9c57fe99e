//! (room of the house: server)
