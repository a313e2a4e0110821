//! Our kernels, from source to the GPU's own code, kept on disk by the hash of all that went in.
#![expect(unsafe_code, reason = "functions of foreign libraries")]

use std::ffi::{CString, c_char};
use std::path::PathBuf;
use std::ptr;
use std::sync::Arc;

use super::Unavailable;
use super::alone;
use super::cache::Cache;
use super::library::{Handle, Nvrtc};
use super::wide::{self, Family};

const COMMON: &str = include_str!("kernels/common.cu");

/// Which of our sources a kernel is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Code {
    /// Row operations, scores and products of few rows.
    Rows,
    /// Attention, for heads of this width.
    Attention(usize),
    /// Products by groups of warps.
    Wide(Family),
    /// All layers of one sequence, for models of these sizes.
    Alone { dim: usize, n_heads: usize, n_kv_heads: usize, ffn: usize },
}

impl Code {
    fn source(self) -> String {
        match self {
            Self::Rows => {
                let (rows, gates) = (include_str!("kernels/rows.cu"), include_str!("kernels/gates.cu"));
                let head = include_str!("kernels/head.cu");
                let (cut, decode) = (include_str!("kernels/cut.cu"), include_str!("kernels/decode.cu"));
                [COMMON, rows, gates, head, cut, decode].join("\n")
            }
            Self::Attention(_) => {
                let (attention, attend) = (include_str!("kernels/attention.cu"), include_str!("kernels/attend.cu"));
                [COMMON, attention, attend, include_str!("kernels/attend_far.cu")].join("\n")
            }
            Self::Wide(of) => [COMMON, &wide::source(of)].join("\n"),
            Self::Alone { .. } => {
                let (attention, attend) = (include_str!("kernels/attention.cu"), include_str!("kernels/attend.cu"));
                let (layers, head) = (include_str!("kernels/alone.cu"), include_str!("kernels/alone_head.cu"));
                [COMMON, attention, attend, layers, head].join("\n")
            }
        }
    }

    /// For a GPU of this architecture, or for its variant that alone has groups of warps.
    fn options(self, architecture: &str) -> Vec<String> {
        let variant = if matches!(self, Self::Wide(_) | Self::Alone { .. }) { "a" } else { "" };
        let sizes = match self {
            Self::Rows | Self::Wide(_) => vec![],
            Self::Attention(width) => vec![("WIDTH", width)],
            Self::Alone { dim, n_heads, n_kv_heads, ffn } => {
                vec![("WIDTH", alone::HEAD), ("DIM", dim), ("HEADS", n_heads), ("KV_HEADS", n_kv_heads), ("FFN", ffn)]
            }
        };
        let sizes = sizes.iter().map(|(name, size)| format!("-D{name}={size}"));
        // Functions without a mark, as lambdas with `auto` are, run on the GPU.
        let options =
            [format!("--gpu-architecture={architecture}{variant}"), "--std=c++17".to_owned(), "-default-device".to_owned()];
        options.into_iter().chain(sizes).collect()
    }
}

/// The compiler, opened when something has to be compiled.
pub(super) struct Compiler {
    pub(super) folders: Vec<PathBuf>,
    pub(super) cache: Arc<Cache>,
    /// `sm_90`, say.
    pub(super) architecture: String,
    /// For a checker of races, which does not follow all ways to wait.
    pub(super) checked: bool,
}

impl Compiler {
    /// The GPU's own code, compiled unless it is kept.
    pub(super) fn code(&self, code: Code) -> Result<Vec<u8>, Unavailable> {
        let (source, mut options) = (code.source(), code.options(&self.architecture));
        options.extend(self.checked.then(|| "-DCHECKED=1".to_owned()));
        let name = file_name(&source, &options);
        if let Some(code) = self.cache.get(&name) {
            return Ok(code);
        }
        let nvrtc = Nvrtc::find(&self.folders)?;
        let code = compile(&nvrtc, &source, &options)?;
        self.cache.put(&name, &code);
        Ok(code)
    }

    /// Compiles side by side what is not kept yet, where it can be kept.
    pub(super) fn prepare(&self, all: &[Code]) {
        if !self.cache.is_there() {
            return;
        }
        // What cannot be compiled says so when it is asked for.
        std::thread::scope(|scope| all.iter().for_each(|&code| drop(scope.spawn(move || self.code(code)))));
    }
}

/// All of our sources, as a hash.
pub(super) fn sources() -> String {
    let wide = Family::ALL.map(Code::Wide);
    let mut hasher = blake3::Hasher::new();
    let alone = Code::Alone { dim: 0, n_heads: 0, n_kv_heads: 0, ffn: 0 };
    [Code::Rows, Code::Attention(0), alone].into_iter().chain(wide).for_each(|code| {
        hasher.update(code.source().as_bytes()).update(b"\0");
    });
    hasher.finalize().to_hex().to_string()
}

fn file_name(source: &str, options: &[String]) -> String {
    let mut hasher = blake3::Hasher::new();
    options.iter().for_each(|option| {
        hasher.update(option.as_bytes()).update(b"\0");
    });
    format!("{}.cubin", hasher.update(source.as_bytes()).finalize().to_hex())
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Compiles all of it for an architecture, if the compiler is where the loader looks.
    fn check(architecture: &str, more: &[Code]) {
        if let Err(missing) = Nvrtc::find(&[]) {
            return eprintln!("skipped: {missing}");
        }
        let compiler = Compiler { folders: vec![], cache: Arc::default(), architecture: architecture.to_owned(), checked: false };
        let attention = [16, 64, 80, 128, 256].map(Code::Attention);
        for code in [Code::Rows].into_iter().chain(attention).chain(more.iter().copied()) {
            let compiled = compiler.code(code);
            assert!(matches!(&compiled, Ok(code) if !code.is_empty()), "{code:?} for {architecture}: {compiled:?}");
        }
    }

    #[test]
    fn kernels_compile_for_the_oldest_gpu() {
        check("sm_80", &[]);
    }

    #[test]
    fn kernels_compile_for_gpus_with_groups() {
        let sizes = [[576, 9, 3, 1536], [192, 3, 1, 512], [64, 2, 2, 256]];
        let alone = sizes.map(|[dim, n_heads, n_kv_heads, ffn]| Code::Alone { dim, n_heads, n_kv_heads, ffn });
        check("sm_90", &Family::ALL.map(Code::Wide).into_iter().chain(alone).collect::<Vec<_>>());
    }

    #[test]
    fn what_is_compiled_side_by_side_is_kept() {
        if let Err(missing) = Nvrtc::find(&[]) {
            return eprintln!("skipped: {missing}");
        }
        let folder = tempfile::tempdir().expect("a folder");
        let cache = Arc::new(Cache::new(Some(folder.path())));
        let compiler = Compiler { folders: vec![], cache, architecture: "sm_90".to_owned(), checked: false };
        let all = [Code::Attention(64), Code::Attention(128)];
        compiler.prepare(&all);
        let kept = std::fs::read_dir(folder.path()).expect("a folder").count();
        assert_eq!(kept, all.len());
        let elsewhere = Compiler { folders: vec![], cache: Arc::default(), architecture: "sm_90".to_owned(), checked: false };
        assert_eq!(compiler.code(all[0]), elsewhere.code(all[0]));
    }
}
