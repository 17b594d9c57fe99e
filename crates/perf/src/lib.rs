//! (room of the house: perf)
