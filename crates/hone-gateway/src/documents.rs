//! Reading documents and traces past a damaged one, so that it does not hide all others.
//!
//! A list of the store ends at what is damaged. Then it is asked which there are, and for each of them by itself.

use hone_trace::store::{Cursor, Document, DocumentHead, Kind, Page, Store, StoreError, TraceQuery, Word};
use hone_trace::{Tenant, Trace};

/// Traces that are read at once where each is read by itself.
const N_SINGLY: u32 = 100;

/// A document that cannot be read.
#[derive(Debug)]
pub struct Damaged {
    /// Its id.
    pub id: String,
    /// Whose it is, unless that cannot be read either.
    pub tenant: Option<Tenant>,
    /// What it is and what is wrong with it.
    pub why: StoreError,
}

/// The latest revisions of the documents of a kind, newest first, each or why it cannot be read: at most `limit` from `after` on.
pub async fn page(
    store: &dyn Store,
    kind: Kind,
    after: Option<Cursor>,
    limit: u32,
) -> Result<Page<Result<Document, Damaged>>, StoreError> {
    match store.documents(kind, after, limit).await {
        Ok(page) => return Ok(Page { items: page.items.into_iter().map(Ok).collect(), next: page.next }),
        Err(StoreError::Damaged { .. }) => {}
        Err(error) => return Err(error),
    }
    let heads = store.document_heads(kind, after, limit).await?;
    let mut items = Vec::with_capacity(heads.items.len());
    for DocumentHead { id, tenant } in heads.items {
        match store.document(kind, &id).await {
            Ok(document) => items.extend(document.map(Ok)),
            Err(why @ StoreError::Damaged { .. }) => items.push(Err(Damaged { id, tenant, why })),
            Err(error) => return Err(error),
        }
    }
    Ok(Page { items, next: heads.next })
}

/// Whether a document that was read so is this tenant's, as far as that is known.
pub(crate) fn is_of(read: &Result<Document, Damaged>, tenant: &Tenant) -> bool {
    match read {
        Ok(document) => document.tenant == *tenant,
        Err(damaged) => damaged.tenant.as_ref() == Some(tenant),
    }
}

/// The word in a document.
pub fn word<W: Word>(document: &Document) -> Result<W, Damaged> {
    document.word().map_err(|why| Damaged { id: document.id.clone(), tenant: Some(document.tenant.clone()), why })
}

/// One document, where it is there and not damaged.
pub(crate) async fn sound<W: Word>(store: &dyn Store, id: &str) -> Result<Option<W>, StoreError> {
    match store.document(W::KIND, id).await {
        Ok(document) => Ok(document.and_then(|document| document.word().ok())),
        Err(StoreError::Damaged { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Some traces that fit, at most `limit` from `after` on, and how many beside them are damaged.
pub(crate) async fn traces(
    store: &dyn Store,
    query: &TraceQuery,
    after: Option<Cursor>,
    limit: u32,
) -> Result<(Page<Trace>, usize), StoreError> {
    match store.traces(query, after, limit).await {
        Err(StoreError::Damaged { .. }) => {}
        read => return read.map(|page| (page, 0)),
    }
    let heads = store.heads(query, after, limit.min(N_SINGLY)).await?;
    let (mut items, mut n_damaged) = (Vec::new(), 0);
    for head in heads.items {
        match store.trace(head.id).await {
            Err(StoreError::Damaged { .. }) => n_damaged += 1,
            trace => items.extend(trace?),
        }
    }
    Ok((Page { items, next: heads.next }, n_damaged))
}
