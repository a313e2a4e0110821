//! The places of the spans of one conversation: pairs of resource and scope, each resource held once.

use super::wire::{self, Place};
use serde_json::{Map, Value};
use std::sync::Arc;

/// How many places are looked at before a new one is made: spans of a place come together.
const RECENT: usize = 16;

/// Distinct places, known by number.
#[derive(Debug, Default)]
pub(super) struct Places {
    resources: Vec<Arc<Map<String, Value>>>,
    scopes: Vec<(usize, Arc<Map<String, Value>>)>,
    /// The bytes of their JSON.
    pub(super) bytes: usize,
}

impl Places {
    /// The places that a trace holds.
    pub(super) fn of(noted: &Value) -> Self {
        let list = |key: &str| noted.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let map = |value: &Value| Arc::new(value.as_object().cloned().unwrap_or_default());
        let resources: Vec<_> = list("resources").iter().map(map).collect();
        let resource = |scope: &Value| scope["resource"].as_u64().and_then(|at| usize::try_from(at).ok()).unwrap_or(usize::MAX);
        let scopes = list("scopes").iter().map(|scope| (resource(scope), map(&scope["scope"])));
        let scopes = scopes.filter(|(resource, _)| *resource < resources.len()).collect();
        Self { bytes: 0, scopes, resources }
    }

    /// The number of this place.
    pub(super) fn number(&mut self, place: &Place) -> usize {
        let recent = self.resources.len().saturating_sub(RECENT);
        let resource = self.resources[recent..].iter().rposition(|known| *known == place.resource);
        let resource = resource.map_or_else(|| self.resources.len(), |at| recent + at);
        if resource == self.resources.len() {
            self.bytes += weight(&place.resource);
            self.resources.push(Arc::clone(&place.resource));
        }
        let recent = self.scopes.len().saturating_sub(RECENT);
        let same = |known: &(usize, Arc<Map<String, Value>>)| known.0 == resource && known.1 == place.scope;
        if let Some(at) = self.scopes[recent..].iter().rposition(same) {
            return recent + at;
        }
        self.bytes += weight(&place.scope);
        self.scopes.push((resource, Arc::clone(&place.scope)));
        self.scopes.len() - 1
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Place> {
        self.scopes
            .iter()
            .map(|(resource, scope)| Place { resource: Arc::clone(&self.resources[*resource]), scope: Arc::clone(scope) })
    }

    /// The text of an attribute of the first resource that has it.
    pub(super) fn text(&self, key: &str) -> Option<&str> {
        self.resources.iter().find_map(|resource| wire::text(resource.get("resource")?.get("attributes")?.as_array()?, key))
    }

    /// The form in which a trace holds them.
    pub(super) fn noted(&self) -> Value {
        let resources = self.resources.iter().map(|resource| Value::Object(Map::clone(resource))).collect();
        let scope = |(resource, scope): &(usize, Arc<Map<String, Value>>)| {
            wire::made([("resource", (*resource).into()), ("scope", Value::Object(Map::clone(scope)))])
        };
        wire::made([("resources", resources), ("scopes", self.scopes.iter().map(scope).collect())])
    }
}

fn weight(map: &Map<String, Value>) -> usize {
    serde_json::to_string(map).map_or(0, |text| text.len())
}
