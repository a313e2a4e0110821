//! Rewards: how a trace is weighed. Knows nothing of training, worlds or the store.
