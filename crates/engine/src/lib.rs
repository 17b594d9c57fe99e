//! (room of the house: engine)
