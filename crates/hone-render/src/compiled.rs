//! Templates that were compiled, once each for as long as the process lives.
//!
//! Compiled code borrows from its source, so who wants to keep it must keep the source as long. Both are kept for ever here, under
//! the source: models that share a template share its code. What is kept is bounded by the bytes of all sources together; a template
//! beyond that is compiled every time it is used.
//! Knows nothing of what is rendered.

use crate::guard;
use minijinja::Error;
use minijinja::machinery::Instructions;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Most bytes of sources whose code is kept.
const KEPT_BYTES_MAX: usize = 16 << 20;

/// Code that lives as long as the process.
pub(crate) type Code = &'static Instructions<'static>;

static KEPT: Mutex<Option<Kept>> = Mutex::new(None);

#[derive(Default)]
struct Kept {
    codes: HashMap<&'static str, Code>,
    n_bytes: usize,
}

/// The code of a source, or `None` where there is no room to keep it. A source that does not compile is not kept.
pub(crate) fn kept(source: &str) -> Result<Option<Code>, Error> {
    let known = |kept: &mut Option<Kept>| kept.get_or_insert_default().codes.get(source).copied();
    if let Some(code) = known(&mut KEPT.lock().unwrap_or_else(PoisonError::into_inner)) {
        return Ok(Some(code));
    }
    // Before anything is kept for ever, it is known to compile.
    guard::compile(source)?;
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(code) = known(&mut kept) {
        return Ok(Some(code));
    }
    let kept = kept.get_or_insert_default();
    if kept.n_bytes.saturating_add(source.len()) > KEPT_BYTES_MAX {
        return Ok(None);
    }
    kept.n_bytes += source.len();
    let source: &'static str = Box::leak(source.to_owned().into_boxed_str());
    let code: Code = Box::leak(Box::new(guard::compile(source)?));
    kept.codes.insert(source, code);
    Ok(Some(code))
}
