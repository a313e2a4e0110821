//! Policies behind one trait: the local engine, upstream providers, scripts. Knows nothing of SQL.
