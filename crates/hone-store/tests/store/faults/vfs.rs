//! A SQLite file layer that fails once, at the n-th write, and passes everything else on to the real one.

#![expect(unsafe_code, reason = "SQLite's file layer is a table of C functions")]

use rusqlite::ffi;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, AtomicPtr, Ordering};

/// The name under which SQLite knows this file layer.
pub(crate) const NAME: &str = "hone-faulty";
const NAME_C: &CStr = c"hone-faulty";

/// How it fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Half of the bytes are written, then an error.
    Torn,
    /// The disk is full.
    Full,
    /// The disk refuses to sync.
    Sync,
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Torn, Self::Full, Self::Sync];
}

/// Which call fails and how.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fault {
    pub(crate) kind: Kind,
    pub(crate) nth: i64,
}

impl Fault {
    /// The variables that tell a child process what to do.
    pub(crate) fn for_child(self, folder: &Path) -> [(&'static str, String); 2] {
        let kind = Kind::ALL.iter().position(|kind| *kind == self.kind).unwrap_or(0);
        [("HONE_TEST_FAULT", format!("{kind} {}", self.nth)), ("HONE_TEST_FOLDER", folder.display().to_string())]
    }

    /// What this process was told, if it is such a child.
    #[expect(clippy::disallowed_methods, reason = "the parent tells the child by variables")]
    pub(crate) fn of_child() -> Option<(Self, PathBuf)> {
        let told = std::env::var("HONE_TEST_FAULT").ok()?;
        let (kind, nth) = told.split_once(' ')?;
        let kind = *Kind::ALL.get(kind.parse::<usize>().ok()?)?;
        Some((Self { kind, nth: nth.parse().ok()? }, std::env::var_os("HONE_TEST_FOLDER")?.into()))
    }
}

static REAL: AtomicPtr<ffi::sqlite3_vfs> = AtomicPtr::new(ptr::null_mut());
static KIND: OnceLock<Kind> = OnceLock::new();
static LEFT: AtomicI64 = AtomicI64::new(i64::MAX);

pub(crate) fn has_fired() -> bool {
    LEFT.load(Ordering::SeqCst) < 0
}

/// Whether this very call is the one that fails.
fn fires(on_sync: bool) -> bool {
    (KIND.get() == Some(&Kind::Sync)) == on_sync && LEFT.fetch_sub(1, Ordering::SeqCst) == 0
}

/// A file of ours; the real one lies right behind it in memory.
#[repr(C)]
struct File {
    base: ffi::sqlite3_file,
}

/// Makes the file layer known to SQLite. Once per process.
pub(crate) fn register(fault: Fault) {
    KIND.get_or_init(|| fault.kind);
    LEFT.store(fault.nth, Ordering::SeqCst);
    // SAFETY: the default file layer lives as long as the process, and so does the copy of it that is leaked here.
    unsafe {
        let real = ffi::sqlite3_vfs_find(ptr::null());
        REAL.store(real, Ordering::SeqCst);
        let mut ours = *real;
        ours.szOsFile += c_int::try_from(size_of::<File>()).expect("a small struct");
        ours.zName = NAME_C.as_ptr();
        ours.pNext = ptr::null_mut();
        ours.xOpen = Some(open);
        let code = ffi::sqlite3_vfs_register(Box::leak(Box::new(ours)), 0);
        assert_eq!(code, ffi::SQLITE_OK);
    }
}

/// The real file behind one of ours.
unsafe fn real(file: *mut ffi::sqlite3_file) -> *mut ffi::sqlite3_file {
    // SAFETY: SQLite allocated szOsFile bytes: our struct, then the real file.
    unsafe { file.cast::<File>().add(1).cast() }
}

unsafe extern "C" fn open(
    _: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    // SAFETY: the arguments are SQLite's own; the real layer gets its own part of the file's memory.
    unsafe {
        let vfs = REAL.load(Ordering::SeqCst);
        (*file).pMethods = ptr::null();
        let open = (*vfs).xOpen.expect("every file layer can open");
        let code = open(vfs, name, real(file), flags, out_flags);
        if code == ffi::SQLITE_OK {
            (*file).pMethods = &raw const METHODS;
        }
        code
    }
}

/// A function of our table that calls the same function of the real file.
macro_rules! pass {
    ($($name:ident = $method:ident ( $($arg:ident : $type:ty),* ) -> $result:ty;)*) => {$(
        unsafe extern "C" fn $name(file: *mut ffi::sqlite3_file, $($arg: $type),*) -> $result {
            // SAFETY: the real file was opened by the real layer, which fills in all functions of its version.
            unsafe {
                let real = real(file);
                ((*(*real).pMethods).$method.expect("the real file layer has it"))(real, $($arg),*)
            }
        }
    )*};
}

pass! {
    close = xClose() -> c_int;
    read = xRead(to: *mut c_void, len: c_int, at: ffi::sqlite3_int64) -> c_int;
    real_write = xWrite(from: *const c_void, len: c_int, at: ffi::sqlite3_int64) -> c_int;
    real_truncate = xTruncate(len: ffi::sqlite3_int64) -> c_int;
    real_sync = xSync(flags: c_int) -> c_int;
    file_size = xFileSize(len: *mut ffi::sqlite3_int64) -> c_int;
    lock = xLock(level: c_int) -> c_int;
    unlock = xUnlock(level: c_int) -> c_int;
    check_reserved_lock = xCheckReservedLock(out: *mut c_int) -> c_int;
    file_control = xFileControl(op: c_int, arg: *mut c_void) -> c_int;
    sector_size = xSectorSize() -> c_int;
    device_characteristics = xDeviceCharacteristics() -> c_int;
    shm_map = xShmMap(page: c_int, len: c_int, extend: c_int, out: *mut *mut c_void) -> c_int;
    shm_lock = xShmLock(offset: c_int, n: c_int, flags: c_int) -> c_int;
    shm_barrier = xShmBarrier() -> ();
    shm_unmap = xShmUnmap(delete: c_int) -> c_int;
}

unsafe extern "C" fn write(file: *mut ffi::sqlite3_file, from: *const c_void, len: c_int, at: ffi::sqlite3_int64) -> c_int {
    // SAFETY: passes on SQLite's own arguments, at most with a smaller length.
    unsafe {
        match KIND.get() {
            Some(Kind::Torn) if fires(false) => {
                real_write(file, from, len / 2, at);
                ffi::SQLITE_IOERR_WRITE
            }
            Some(Kind::Full) if fires(false) => ffi::SQLITE_FULL,
            _ => real_write(file, from, len, at),
        }
    }
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, len: ffi::sqlite3_int64) -> c_int {
    if fires(false) {
        return ffi::SQLITE_IOERR_TRUNCATE;
    }
    // SAFETY: passes on SQLite's own arguments.
    unsafe { real_truncate(file, len) }
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, flags: c_int) -> c_int {
    if fires(true) {
        return ffi::SQLITE_IOERR_FSYNC;
    }
    // SAFETY: passes on SQLite's own arguments.
    unsafe { real_sync(file, flags) }
}

static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    iVersion: 2,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: None,
    xUnfetch: None,
};
