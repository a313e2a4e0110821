//! A file or a folder that appears whole or not at all, and is there to stay when its writer is told so.

use crate::failure::{Failure, at_path};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Writes a file beside its place, makes it durable, and moves it there.
pub(crate) fn write(path: &Path, bytes: &(impl AsRef<[u8]> + ?Sized)) -> Result<(), Failure> {
    if is_device(path) {
        return fs::write(path, bytes.as_ref()).map_err(at_path(path));
    }
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    let written = File::create(&partial).and_then(|mut file| file.write_all(bytes.as_ref()).and_then(|()| file.sync_all()));
    written.map_err(at_path(&partial))?;
    fs::rename(&partial, path).map_err(at_path(path))?;
    name(path)
}

/// Has a new folder written beside its place, and moves it there. Of one that cannot be written, nothing stays.
pub(crate) fn folder(path: &Path, write: impl FnOnce(&Path) -> Result<(), Failure>) -> Result<(), Failure> {
    let beside = folder_of(path);
    fs::create_dir_all(beside).map_err(at_path(beside))?;
    let around = tempfile::Builder::new().prefix(".partial-").tempdir_in(beside).map_err(at_path(beside))?;
    let partial = around.path().join("whole");
    fs::create_dir(&partial).map_err(at_path(&partial))?;
    write(&partial)?;
    fs::rename(&partial, path).map_err(at_path(path))?;
    name(path)
}

/// Whether this is a device or a pipe, such as `/dev/null`: it is written to as it stands, because a file that were moved there would
/// take its place.
pub(crate) fn is_device(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|there| !there.is_file() && !there.is_dir())
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Makes the name of a new file durable, which it is when its folder is.
pub(crate) fn name(path: &Path) -> Result<(), Failure> {
    let folder = folder_of(path);
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(at_path(folder))
}
