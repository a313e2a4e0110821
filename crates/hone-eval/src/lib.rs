//! Statistics over traces: many episodes in, one report out. Knows nothing of IO.
