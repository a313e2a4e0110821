//! Process rewards: what single turns earn on the way.
//!
//! A tool call that worked pays a little, a tool that ran into a timeout costs a little. The same call with the same arguments pays
//! once in a trace. A world that knows which calls were needed says in a signal how many of a turn pay. Neither bonus nor cost may
//! ever matter more than what is wanted, so with primary = the weighted sum of the trace's primary components, and scale = the most that this sum
//! can be by the recipe's ranges (or |primary| where it has none),
//!
//!   weight x sum of bonuses ≤ share_max x max(primary, 0)
//!   weight x sum of costs   ≤ share_max x max(scale, |primary|)
//!
//! What is above is scaled down, all bonuses alike and all costs alike. Several such components share the caps: what one has used,
//! the next has no more. A trace that fails earns nothing by calling tools, however many; a wasteful success still beats a frugal
//! failure. The turns add up to the component of the whole trace, which is already part of its total.

use hone_trace::{Trace, Turn};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::HashSet;

/// What single turns earn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Process {
    /// What a tool call that timed out earns.
    pub timeout: f64,
    /// What a tool call that worked earns.
    pub success: f64,
    /// The signal that says how many calls of a turn earn it, where the world knows; without one all that worked do, the same call once.
    pub signal: Option<String>,
    /// The share of the primary that all of it may reach.
    pub share_max: f64,
}

impl Default for Process {
    fn default() -> Self {
        Self { timeout: -0.1, success: 0.05, signal: None, share_max: 0.3 }
    }
}

/// What process rewards of one trace are capped by, and what the components so far have used of it.
#[derive(Debug)]
pub(crate) struct Caps {
    primary: f64,
    scale: Option<f64>,
    bonuses: f64,
    costs: f64,
}

impl Caps {
    pub(crate) fn new(primary: f64, scale: Option<f64>) -> Self {
        Self { primary, scale, bonuses: 0.0, costs: 0.0 }
    }
}

impl Process {
    pub(crate) fn check(&self) -> Result<(), String> {
        if !(self.timeout.is_finite() && self.success.is_finite()) {
            return Err("`timeout` and `success` must be finite".into());
        }
        if !(self.share_max > 0.0 && self.share_max < 1.0) {
            return Err(format!("`share_max` is {}, and must be between 0 and 1", self.share_max));
        }
        Ok(())
    }

    /// What each turn earns, after the caps.
    pub(crate) fn per_turn(&self, trace: &Trace, weight: f64, caps: &mut Caps) -> Vec<f64> {
        let mut calls = HashSet::new();
        let raw: Vec<(f64, f64)> = trace
            .turns()
            .map(|turn| {
                let n_timeouts = turn.errors.iter().filter(|error| error.kind == "tool_timeout").count() as f64;
                let amounts = [n_timeouts * self.timeout, self.n_paid(turn, &mut calls) * self.success];
                (amounts.iter().map(|amount| amount.max(0.0)).sum(), amounts.iter().map(|amount| amount.min(0.0)).sum())
            })
            .collect();
        let kept = |sum: f64, max: f64, used: &mut f64| {
            let (worth, left) = (weight.abs() * sum.abs(), (max - *used).max(0.0));
            *used += worth.min(left);
            if worth > left { left / worth } else { 1.0 }
        };
        let bonus_max = self.share_max * caps.primary.max(0.0);
        let cost_max = self.share_max * caps.primary.abs().max(caps.scale.unwrap_or(0.0));
        let bonuses_kept = kept(raw.iter().map(|turn| turn.0).sum(), bonus_max, &mut caps.bonuses);
        let costs_kept = kept(raw.iter().map(|turn| turn.1).sum(), cost_max, &mut caps.costs);
        raw.iter().map(|(bonus, cost)| bonus * bonuses_kept + cost * costs_kept).collect()
    }

    /// How many calls of a turn are paid for. `calls` has those of the turns before it.
    fn n_paid<'a>(&self, turn: &'a Turn, calls: &mut HashSet<(&'a str, &'a Value)>) -> f64 {
        match &self.signal {
            Some(signal) => turn.signals.get(signal).copied().unwrap_or(0.0),
            None => {
                let worked = turn.tool_calls.iter().filter(|call| call.success == Some(true));
                worked.filter(|call| calls.insert((&call.name, &call.arguments))).count() as f64
            }
        }
    }
}
