//! The table `[data]`: what data must be before it is learned from.

use super::{Setting, find, number, text, texts};
use crate::failure::Failure;
use hone_trace::Tenant;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// What data must be before it is learned from.
#[derive(Debug, Clone, PartialEq)]
pub struct Data {
    /// `data.sft_points`
    pub sft_points: u64,
    /// `data.rl_points`
    pub rl_points: u64,
    /// `data.quality_percent`, as a reward.
    pub quality: f64,
    /// `data.clean_percent`, as a share.
    pub clean: f64,
    /// `data.task_types`
    pub task_types: u64,
    /// `data.task_points`
    pub task_points: u64,
    /// `data.near_duplicate_percent`, as a share.
    pub likeness: f64,
    /// `data.user_field`
    pub user_field: String,
    /// `data.held_out`
    pub held_out: Option<PathBuf>,
    /// `data.consent`
    pub consent: BTreeSet<Tenant>,
    /// `data.key_file`
    pub key_file: PathBuf,
}

pub(super) fn read(settings: &mut [Setting], beside_file: &Path, folder: &Path) -> Result<Data, Failure> {
    let tenants = find(settings, "data.consent");
    let consent = texts(tenants).into_iter().map(|name| Tenant::new(name).map_err(|error| tenants.wrong(error)));
    let consent = consent.collect::<Result<BTreeSet<Tenant>, Failure>>()?;
    let field = find(settings, "data.user_field");
    let user_field = text(field);
    if !user_field.starts_with("metadata.") || user_field.split('.').any(str::is_empty) {
        return Err(field.wrong(format_args!("`{user_field}` is not a path such as `metadata.user`")));
    }
    let held_out = text(find(settings, "data.held_out"));
    let key_file = text(find(settings, "data.key_file"));
    Ok(Data {
        sft_points: count(find(settings, "data.sft_points"))?,
        rl_points: count(find(settings, "data.rl_points"))?,
        quality: number(find(settings, "data.quality_percent")) as f64 / 100.0,
        clean: share(find(settings, "data.clean_percent"))?,
        task_types: count(find(settings, "data.task_types"))?,
        task_points: count(find(settings, "data.task_points"))?,
        likeness: share(find(settings, "data.near_duplicate_percent"))?,
        user_field,
        held_out: (!held_out.is_empty()).then(|| beside_file.join(held_out)),
        consent,
        key_file: if key_file.is_empty() { folder.join("data.key") } else { beside_file.join(key_file) },
    })
}

fn count(setting: &Setting) -> Result<u64, Failure> {
    let number = number(setting);
    u64::try_from(number).map_err(|_| setting.wrong(format_args!("{number} is less than 0")))
}

fn share(setting: &Setting) -> Result<f64, Failure> {
    match number(setting) {
        percent @ 0..=100 => Ok(percent as f64 / 100.0),
        other => Err(setting.wrong(format_args!("{other} is not between 0 and 100"))),
    }
}
