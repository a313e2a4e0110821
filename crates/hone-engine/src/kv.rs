//! The book of pages: which are free, which are shared, and which hold a prefix that may come again.
//!
//! A full page is known by its chain: whom it was computed for and with which adapter version, then the tokens of each page before
//! it and its own. Sequences of one asker with the same beginning share those pages, and nobody can tell what others asked by how soon
//! an answer comes; when the last user leaves, a known page stays until
//! its room is needed (least recently used first). Half-filled pages belong to one sequence.
//! The book knows counts and tokens; the keys and values themselves lie in the backend.

use std::collections::{BTreeSet, HashMap};

use crate::layout::PAGE;

/// Which weights the keys were computed with: model version and adapter version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Version(pub u64);

/// Where a chain begins: whose it is, and what its keys were computed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Root {
    /// Who asks.
    pub asker: u64,
    /// The weights.
    pub version: Version,
}

/// A node in the tree of known prefixes, by a number that no other ever has.
type NodeId = u64;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Parent {
    Root(Root),
    Node(NodeId),
}

/// What a full page is known by: what is before it, and its own tokens.
type Key = (Parent, [u32; PAGE]);

#[derive(Clone, Debug, Default)]
struct Page {
    n_users: usize,
    node: Option<Node>,
    last_used: u64,
}

#[derive(Clone, Debug)]
struct Node {
    id: NodeId,
    key: Key,
    version: Version,
    /// The page before this one.
    before: Option<u32>,
    n_children: usize,
}

/// The book of pages.
#[derive(Debug)]
pub struct PageBook {
    pages: Vec<Page>,
    free: Vec<u32>,
    /// Known pages without users, oldest first.
    idle: BTreeSet<(u64, u32)>,
    by_key: HashMap<Key, u32>,
    next_node: NodeId,
    clock: u64,
}

impl PageBook {
    /// A book of empty pages.
    pub fn new(n_pages: usize) -> Self {
        Self {
            pages: vec![Page::default(); n_pages],
            free: (0..n_pages as u32).rev().collect(),
            idle: BTreeSet::new(),
            by_key: HashMap::new(),
            next_node: 0,
            clock: 0,
        }
    }

    /// Pages that could be taken now.
    pub fn n_available(&self) -> usize {
        self.free.len() + self.idle.len()
    }

    /// Pages in all.
    pub fn n_pages(&self) -> usize {
        self.pages.len()
    }

    /// Takes the known pages of the longest known beginning of `ids`; whole pages only. They gain a user.
    pub fn take_known(&mut self, root: Root, ids: &[u32]) -> Vec<u32> {
        let mut parent = Parent::Root(root);
        let mut taken = Vec::new();
        for tokens in ids.chunks_exact(PAGE) {
            let Some(&page) = self.by_key.get(&(parent, page_of(tokens))) else {
                break;
            };
            let Some(node) = &self.pages[page as usize].node else {
                break;
            };
            parent = Parent::Node(node.id);
            self.add_user(page);
            taken.push(page);
        }
        taken
    }

    /// Takes an empty page with one user, forgetting the least recently used prefix if need be.
    pub fn take_empty(&mut self) -> Option<u32> {
        let page = match self.free.pop() {
            Some(page) => page,
            None => {
                // What others continue may not go before them.
                let &(time, page) = self.idle.iter().find(|&&(_, page)| self.is_leaf(page))?;
                self.idle.remove(&(time, page));
                self.forget(page);
                page
            }
        };
        self.pages[page as usize].n_users = 1;
        Some(page)
    }

    /// One more user of a page.
    pub fn add_user(&mut self, page: u32) {
        let entry = &mut self.pages[page as usize];
        if entry.n_users == 0 {
            self.idle.remove(&(entry.last_used, page));
        }
        entry.n_users += 1;
    }

    /// Makes the full pages of a sequence known, so that others can share them. Where another sequence's page is known
    /// for the same tokens the chain ends: a user of a page is always a user of the pages before it, so among idle
    /// pages there is always one that nothing continues.
    pub fn remember(&mut self, root: Root, ids: &[u32], pages: &[u32]) {
        let (mut parent, mut before) = (Parent::Root(root), None);
        for (tokens, &page) in ids.chunks_exact(PAGE).zip(pages) {
            let key = (parent, page_of(tokens));
            match self.by_key.get(&key) {
                Some(&known) if known == page => {}
                None if self.pages[page as usize].node.is_none() => self.add_node(key, root.version, before, page),
                Some(_) | None => return,
            }
            let Some(node) = &self.pages[page as usize].node else {
                return;
            };
            (parent, before) = (Parent::Node(node.id), Some(page));
        }
    }

    /// One user less of each page; known pages stay until their room is needed. Give the pages of one sequence in order.
    pub fn leave(&mut self, pages: &[u32]) {
        // From the end, so that a continuation is never younger than what it continues.
        for &page in pages.iter().rev() {
            self.clock += 1;
            let entry = &mut self.pages[page as usize];
            assert!(entry.n_users > 0, "a page without users was left");
            entry.n_users -= 1;
            if entry.n_users == 0 {
                if entry.node.is_some() {
                    entry.last_used = self.clock;
                    self.idle.insert((self.clock, page));
                } else {
                    self.free.push(page);
                }
            }
        }
    }

    /// Pages without users that were computed with weights which are no more are free: they are taken before any that was never used.
    pub fn forget_versions(&mut self, is_gone: impl Fn(Version) -> bool) {
        let pages = &self.pages;
        let is_stale = |&(_, page): &(u64, u32)| pages[page as usize].node.as_ref().is_some_and(|node| is_gone(node.version));
        // What continues a page without users has none either, and is of the same version: whole chains go.
        let stale: Vec<_> = self.idle.iter().copied().filter(is_stale).collect();
        for (time, page) in stale {
            self.idle.remove(&(time, page));
            self.forget(page);
            self.free.push(page);
        }
    }

    fn add_node(&mut self, key: Key, version: Version, before: Option<u32>, page: u32) {
        let id = self.next_node;
        self.next_node += 1;
        if let Some(parent) = before.and_then(|before| self.pages[before as usize].node.as_mut()) {
            parent.n_children += 1;
        }
        self.by_key.insert(key, page);
        self.pages[page as usize].node = Some(Node { id, key, version, before, n_children: 0 });
    }

    fn is_leaf(&self, page: u32) -> bool {
        self.pages[page as usize].node.as_ref().is_none_or(|node| node.n_children == 0)
    }

    fn forget(&mut self, page: u32) {
        let Some(node) = self.pages[page as usize].node.take() else {
            return;
        };
        self.by_key.remove(&node.key);
        if let Some(parent) = node.before.and_then(|before| self.pages[before as usize].node.as_mut()) {
            parent.n_children -= 1;
        }
    }
}

fn page_of(tokens: &[u32]) -> [u32; PAGE] {
    let mut page = [0; PAGE];
    page.copy_from_slice(tokens);
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(n_pages: usize, first: u32) -> Vec<u32> {
        (first..first + (n_pages * PAGE) as u32).collect()
    }

    fn root(asker: u64, version: u64) -> Root {
        Root { asker, version: Version(version) }
    }

    fn fill(book: &mut PageBook, root: Root, ids: &[u32]) -> Vec<u32> {
        let mut pages = book.take_known(root, ids);
        while pages.len() * PAGE < ids.len() {
            pages.push(book.take_empty().expect("room"));
        }
        book.remember(root, ids, &pages);
        pages
    }

    #[test]
    fn the_same_beginning_is_shared_by_one_asker_within_a_version() {
        let mut book = PageBook::new(8);
        let long = ids(3, 0);
        let first = fill(&mut book, root(3, 1), &long);
        assert_eq!(book.take_known(root(3, 1), &long[..40]), first[..2]);
        assert!(book.take_known(root(3, 2), &long).is_empty());
        assert!(book.take_known(root(4, 1), &long).is_empty());
    }

    #[test]
    fn idle_prefixes_go_oldest_first_and_leaves_before_roots() {
        let mut book = PageBook::new(4);
        let (old, new) = (ids(2, 0), ids(2, 1000));
        let a = fill(&mut book, root(0, 0), &old);
        book.leave(&a);
        let b = fill(&mut book, root(0, 0), &new);
        book.leave(&b);
        assert_eq!(book.n_available(), 4);
        assert_eq!(book.take_empty(), Some(a[1]));
        assert_eq!(book.take_known(root(0, 0), &old), a[..1]);
        assert_eq!(book.take_empty(), Some(b[1]));
        assert_eq!(book.take_empty(), Some(b[0]));
        assert_eq!(book.take_empty(), None);
    }

    #[test]
    fn pages_of_a_version_that_is_gone_are_taken_first() {
        let mut book = PageBook::new(64);
        let (old, kept) = (ids(3, 0), ids(2, 1000));
        let (a, b) = (fill(&mut book, root(0, 1), &old), fill(&mut book, root(0, 2), &kept));
        let used = fill(&mut book, root(0, 1), &ids(1, 2000));
        book.leave(&a);
        book.leave(&b);
        book.forget_versions(|version| version == Version(1));
        assert!(book.take_known(root(0, 1), &old).is_empty());
        assert_eq!(book.take_known(root(0, 2), &kept), b);
        let mut again = fill(&mut book, root(0, 3), &old);
        again.sort_unstable();
        assert_eq!(again, a, "none that was never used");
        book.leave(&used);
        assert_eq!(book.n_available(), 64 - 5);
    }

    #[test]
    fn unknown_pages_are_free_at_once() {
        let mut book = PageBook::new(2);
        let page = book.take_empty().expect("room");
        book.add_user(page);
        book.leave(&[page]);
        assert_eq!(book.n_available(), 1);
        book.leave(&[page]);
        assert_eq!(book.n_available(), 2);
    }
}
