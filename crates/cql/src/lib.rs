//! (room of the house: cql)
