//! A file or a folder that appears whole or not at all, and is there to stay when its writer is told so.

use crate::failure::{Failure, at_path};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// Writes a file beside its place, makes it durable, and moves it there.
pub(crate) fn write(path: &Path, bytes: &(impl AsRef<[u8]> + ?Sized)) -> Result<(), Failure> {
    if is_device(path) {
        return fs::write(path, bytes.as_ref()).map_err(at_path(path));
    }
    let mut draft = Draft::beside(path)?;
    draft.file().write_all(bytes.as_ref()).map_err(at_path(path))?;
    draft.publish()
}

/// A file on its way to its place, under a name that no other writer has. One that does not arrive leaves nothing.
pub(crate) struct Draft {
    file: NamedTempFile,
    path: PathBuf,
}

impl Draft {
    pub(crate) fn beside(path: &Path) -> Result<Self, Failure> {
        let mut prefix = path.file_name().unwrap_or_default().to_owned();
        prefix.push(".partial-");
        // Who may read it is for the user's mask to say, as for any new file.
        let everyone = fs::Permissions::from_mode(0o666);
        let file = tempfile::Builder::new().prefix(&prefix).permissions(everyone).tempfile_in(folder_of(path));
        Ok(Self { file: file.map_err(at_path(path))?, path: path.to_owned() })
    }

    pub(crate) fn file(&mut self) -> &mut File {
        self.file.as_file_mut()
    }

    /// Makes it durable, and moves it to its place.
    pub(crate) fn publish(self) -> Result<(), Failure> {
        let Self { file, path } = self;
        file.as_file().sync_all().map_err(at_path(&path))?;
        file.persist(&path).map_err(|error| at_path(&path)(error.error))?;
        name(&path)
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_who_write_one_file_do_not_mix() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("out");
        let (mut one, mut two) = (Draft::beside(&path).expect("a draft"), Draft::beside(&path).expect("another"));
        for _ in 0..3 {
            one.file().write_all(b"1").expect("written");
            two.file().write_all(b"2").expect("written");
        }
        one.publish().expect("published");
        assert_eq!(fs::read_to_string(&path).expect("whole"), "111");
        two.publish().expect("published");
        assert_eq!(fs::read_to_string(&path).expect("whole"), "222");
    }

    #[test]
    fn what_does_not_arrive_leaves_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("out");
        write(&path, "old").expect("written");
        let mut draft = Draft::beside(&path).expect("a draft");
        draft.file().write_all(b"half").expect("written");
        drop(draft);
        let names: Vec<_> =
            fs::read_dir(folder.path()).expect("read").map(|entry| entry.expect("an entry").file_name()).collect();
        assert_eq!((names, fs::read_to_string(&path).expect("whole")), (vec!["out".into()], "old".to_owned()));
    }
}
