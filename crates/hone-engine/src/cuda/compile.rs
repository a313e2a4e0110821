//! Our kernels, from source to the GPU's own code, kept on disk by the hash of all that went in.
#![expect(unsafe_code, reason = "functions of foreign libraries")]

use std::ffi::{CString, c_char};
use std::path::{Path, PathBuf};
use std::ptr;

use super::Unavailable;
use super::library::{Handle, Nvrtc};

/// Row operations, scores and what decoding needs.
pub(super) const ROWS: &[&str] = &[
    include_str!("kernels/common.cu"),
    include_str!("kernels/rows.cu"),
    include_str!("kernels/head.cu"),
    include_str!("kernels/decode.cu"),
];
/// Attention; needs `WIDTH`.
pub(super) const ATTENTION: &[&str] =
    &[include_str!("kernels/common.cu"), include_str!("kernels/attention.cu"), include_str!("kernels/attend.cu")];

/// The compiler, opened when something has to be compiled.
pub(super) struct Compiler {
    pub(super) folders: Vec<PathBuf>,
    pub(super) cache: Option<PathBuf>,
    /// `sm_90`, say.
    pub(super) architecture: String,
}

impl Compiler {
    /// The code of these sources with these definitions.
    pub(super) fn code(&self, sources: &[&str], definitions: &[String]) -> Result<Vec<u8>, Unavailable> {
        let source = sources.join("\n");
        let mut options = vec![format!("--gpu-architecture={}", self.architecture), "--std=c++17".to_owned()];
        options.extend(definitions.iter().map(|definition| format!("-D{definition}")));
        let kept = self.cache.as_ref().map(|folder| folder.join(file_name(&source, &options)));
        if let Some(code) = kept.as_ref().and_then(|path| std::fs::read(path).ok()).filter(|code| !code.is_empty()) {
            return Ok(code);
        }
        let nvrtc = Nvrtc::find(&self.folders)?;
        let code = compile(&nvrtc, &source, &options)?;
        if let Some(path) = kept {
            keep(&path, &code);
        }
        Ok(code)
    }
}

fn file_name(source: &str, options: &[String]) -> String {
    let mut hasher = blake3::Hasher::new();
    options.iter().for_each(|option| {
        hasher.update(option.as_bytes()).update(b"\0");
    });
    format!("{}.cubin", hasher.update(source.as_bytes()).finalize().to_hex())
}

/// Keeps code for the next start. Another process may do the same at once, so the file appears whole or not at all; that it cannot
/// be kept (a full or read-only disk) only costs time.
fn keep(path: &Path, code: &[u8]) {
    let half = path.with_extension(format!("{}.half", std::process::id()));
    let folder = path.parent().unwrap_or(Path::new("."));
    let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&half, code));
    if written.and_then(|()| std::fs::rename(&half, path)).is_err() {
        let _ = std::fs::remove_file(&half);
    }
}

fn compile(nvrtc: &Nvrtc, source: &str, options: &[String]) -> Result<Vec<u8>, Unavailable> {
    let c_string = |text: &str| CString::new(text).map_err(|error| Unavailable::Broken(error.to_string()));
    let (source, name) = (c_string(source)?, c_string("hone.cu")?);
    let options = options.iter().map(|option| c_string(option)).collect::<Result<Vec<_>, _>>()?;
    let pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
    let mut program: Handle = ptr::null_mut();
    // SAFETY: all strings outlive the calls, and the buffers have the sizes that the library gave.
    unsafe {
        let made = (nvrtc.nvrtcCreateProgram)(&mut program, source.as_ptr(), name.as_ptr(), 0, ptr::null(), ptr::null());
        if made != 0 {
            return Err(Unavailable::Broken(format!("NVRTC error {made}")));
        }
        let done = (nvrtc.nvrtcCompileProgram)(program, pointers.len() as i32, pointers.as_ptr());
        let result = if done == 0 { Ok(output(nvrtc, program)) } else { Err(log(nvrtc, program, done)) };
        (nvrtc.nvrtcDestroyProgram)(&mut program);
        result
    }
}

unsafe fn output(nvrtc: &Nvrtc, program: Handle) -> Vec<u8> {
    let mut size = 0;
    // SAFETY: the program is compiled, and the buffer has the size that the library gave.
    unsafe {
        (nvrtc.nvrtcGetCUBINSize)(program, &mut size);
        let mut code = vec![0u8; size];
        (nvrtc.nvrtcGetCUBIN)(program, code.as_mut_ptr().cast());
        code
    }
}

unsafe fn log(nvrtc: &Nvrtc, program: Handle, status: i32) -> Unavailable {
    let mut size = 0;
    // SAFETY: the buffer has the size that the library gave.
    unsafe {
        (nvrtc.nvrtcGetProgramLogSize)(program, &mut size);
        let mut text = vec![0u8; size];
        (nvrtc.nvrtcGetProgramLog)(program, text.as_mut_ptr().cast());
        let text = String::from_utf8_lossy(&text).trim_end_matches('\0').trim().to_owned();
        Unavailable::Broken(format!("the kernels do not compile (NVRTC error {status}): {text}"))
    }
}
