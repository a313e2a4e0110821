//! The dashboard: pages that show what is on the record, let people say what answers should have been, and let who may decide about canaries and
//! advice.
//!
//! Every page is made on the server from the store and from the agents as they are now, whole without a script. Lists go by key, never by
//! counting what they leave out; what a page reads has a stated limit. A page shows what belongs to the tenant of who looks, and nothing
//! else. What is decided or said here is a line of a log, or an answer to advice, as from the command line or by the API.
//!
//! Knows nothing of files: settings and chance arrive as arguments.

mod advice;
mod agent;
mod agents;
mod answer;
mod astray;
mod beside;
mod canary;
mod chart;
mod compare;
mod configuration;
mod data;
mod decide;
mod evaluations;
mod feedback;
mod figure;
mod groups;
pub(crate) mod html;
mod overview;
mod page;
mod past;
mod proposals;
mod query;
mod records;
mod run;
mod runs;
mod say;
mod session;
mod sign_in;
mod table;
mod trace;
mod traces;
mod turn;

pub(crate) use advice::advice;
pub(crate) use agent::agent;
pub(crate) use agents::agents;
pub(crate) use answer::answer;
pub(crate) use astray::{led, lost};
pub(crate) use compare::compare;
pub(crate) use configuration::configuration;
pub(crate) use data::data;
pub(crate) use decide::decide;
pub(crate) use evaluations::evaluations;
pub(crate) use groups::{group, groups};
pub(crate) use overview::overview;
pub(crate) use page::{door, icon, script, style};
pub(crate) use past::Past;
pub(crate) use query::Query;
pub(crate) use records::Curves;
pub(crate) use run::run;
pub(crate) use runs::runs;
pub(crate) use say::say;
pub(crate) use session::Sessions;
pub(crate) use sign_in::{sign_in, sign_out, signed_in};
pub(crate) use trace::trace;
pub(crate) use traces::traces;

use hone_trace::Tenant;

/// What the dashboard needs besides the store.
#[derive(Debug, Clone)]
pub struct Dashboard {
    /// Whose settings these are: nobody else sees them.
    pub tenant: Tenant,
    /// The settings in effect, without secrets.
    pub settings: Vec<Setting>,
    /// Thirty-two random bytes that nobody can guess; `None` where the machine has none to give.
    pub draw: fn() -> Option<[u8; 32]>,
    /// Whether browsers reach the server by TLS, spoken here or by a proxy.
    pub is_encrypted: bool,
}

/// A setting as it may be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Its name, such as `store.folder`.
    pub name: String,
    /// Its value, without passwords.
    pub value: String,
    /// Where the value came from.
    pub from: String,
}
