//! GGUF, versions 2 and 3: a header of typed values, a table of tensors, then their blocks.
//!
//! Every length is compared with the bytes that are left before anything is reserved, so the memory used is bounded by
//! the size of the file. Offsets must be aligned, inside the file and free of overlap. Values are handed out raw
//! (tokenizer arrays, chat template): what they mean is the business of `hone-render`.

use std::collections::BTreeMap;
use std::path::Path;

use crate::config::{Family, ModelConfig, Rope, RopeScaling, unsupported};
use crate::error::LoadError;
use crate::mapped::Mapped;
use crate::quant::Encoding;

const TENSORS_MAX: u64 = 1 << 16;
const VALUES_MAX: u64 = 1 << 16;

/// One value of the header.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Any unsigned integer.
    U64(u64),
    /// Any signed integer.
    I64(i64),
    /// Either float width.
    F64(f64),
    /// A truth value.
    Bool(bool),
    /// UTF-8 text.
    Text(String),
    /// Texts, such as the tokens.
    Texts(Vec<String>),
    /// Integers and truth values, such as token types.
    Ints(Vec<i64>),
    /// Floats, such as token scores.
    Floats(Vec<f32>),
}

impl Value {
    /// The value as a count, when it is one.
    pub fn as_u64(&self) -> Option<u64> {
        match self {
            Self::U64(x) => Some(*x),
            Self::I64(x) => u64::try_from(*x).ok(),
            _ => None,
        }
    }

    /// The value as a float, when it is a number.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Self::F64(x) => Some(*x),
            Self::U64(x) => Some(*x as f64),
            Self::I64(x) => Some(*x as f64),
            _ => None,
        }
    }

    /// The value as text, when it is text.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// Where one tensor lies.
#[derive(Clone, Debug)]
pub struct TensorInfo {
    /// Sizes, the fastest-running first (GGUF order: columns, rows).
    pub dims: Vec<usize>,
    /// Block format, or the type number when this engine cannot decode it.
    pub encoding: Result<Encoding, u32>,
    start: usize,
    end: usize,
}

/// A mapped GGUF file with its header read and checked.
#[derive(Debug)]
pub struct Gguf {
    file: Mapped,
    values: BTreeMap<String, Value>,
    tensors: BTreeMap<String, TensorInfo>,
}

impl Gguf {
    /// Maps a file and checks its header.
    pub fn open(path: &Path) -> Result<Self, LoadError> {
        let file = Mapped::open(path)?;
        let (values, tensors) = parse(file.bytes()).map_err(|what| LoadError::malformed(path, what))?;
        Ok(Self { file, values, tensors })
    }

    /// Header values by name.
    pub fn values(&self) -> &BTreeMap<String, Value> {
        &self.values
    }

    /// The whole file.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.file.bytes()
    }

    /// Tensors by name.
    pub fn tensors(&self) -> &BTreeMap<String, TensorInfo> {
        &self.tensors
    }

    /// The file.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Decodes a tensor of the expected shape (rows, columns).
    pub fn read(&self, name: &str, shape: (usize, usize)) -> Result<Vec<f32>, LoadError> {
        self.find(name, shape).map(|(encoding, bytes)| encoding.decode(bytes))
    }

    /// Where a tensor of the expected shape is, and how it is written.
    pub(crate) fn find(&self, name: &str, shape: (usize, usize)) -> Result<(Encoding, &[u8]), LoadError> {
        let info = self.tensors.get(name).ok_or_else(|| LoadError::missing(self.path(), name))?;
        let columns = info.dims.first().copied().unwrap_or(1);
        let rows: usize = info.dims.iter().skip(1).product();
        if (rows, columns) != shape {
            let what = format!("tensor `{name}` has shape {:?} where the model needs {shape:?}", (rows, columns));
            return Err(LoadError::malformed(self.path(), what));
        }
        let encoding =
            info.encoding.map_err(|id| LoadError::malformed(self.path(), format!("tensor `{name}` has unknown type {id}")))?;
        Ok((encoding, &self.file.bytes()[info.start..info.end]))
    }

    /// The model that the header describes.
    pub fn config(&self) -> Result<ModelConfig, LoadError> {
        let arch = self.values.get("general.architecture").and_then(Value::as_text).unwrap_or("");
        let family = match arch {
            "llama" => Family::Llama,
            "qwen2" => Family::Qwen2,
            "qwen3" => Family::Qwen3,
            other => return unsupported(format!("GGUF architecture `{other}`")),
        };
        let get = |key: &str| self.values.get(&format!("{arch}.{key}"));
        let count = |key: &str| get(key).and_then(Value::as_u64).and_then(|x| usize::try_from(x).ok());
        let need = |key: &str| count(key).map_or_else(|| unsupported(format!("GGUF has no `{arch}.{key}`")), Ok);
        let dim = need("embedding_length")?;
        let n_heads = need("attention.head_count")?;
        let context_len = need("context_length")?;
        if let Some(window) = count("attention.sliding_window").filter(|&window| window < context_len) {
            return unsupported(format!("sliding window {window} is shorter than the context of {context_len}"));
        }
        let embed = self.tensors.get("token_embd.weight");
        let vocab = embed.and_then(|info| info.dims.get(1)).copied().unwrap_or(0);
        ModelConfig {
            family,
            vocab,
            dim,
            n_layers: need("block_count")?,
            n_heads,
            n_kv_heads: count("attention.head_count_kv").unwrap_or(n_heads),
            head_dim: count("attention.key_length").unwrap_or(dim / n_heads.max(1)),
            ffn_dim: need("feed_forward_length")?,
            norm_eps: get("attention.layer_norm_rms_epsilon").and_then(Value::as_f64).unwrap_or(1e-5) as f32,
            rope: self.rope(arch)?,
            qkv_bias: self.tensors.contains_key("blk.0.attn_q.bias"),
            qk_norm: self.tensors.contains_key("blk.0.attn_q_norm.weight"),
            tied_head: !self.tensors.contains_key("output.weight"),
            context_len,
        }
        .validated()
    }

    fn rope(&self, arch: &str) -> Result<Rope, LoadError> {
        let get = |key: &str| self.values.get(&format!("{arch}.rope.{key}"));
        let theta = get("freq_base").and_then(Value::as_f64).unwrap_or(10_000.0);
        let divisors = match self.tensors.get("rope_freqs.weight") {
            Some(info) => Some(self.read("rope_freqs.weight", (1, info.dims.iter().product()))?),
            None => None,
        };
        let factor = get("scaling.factor").and_then(Value::as_f64);
        let scaling = match (get("scaling.type").and_then(Value::as_text).unwrap_or("none"), divisors) {
            ("none" | "llama3", Some(divisors)) => RopeScaling::Divisors(divisors),
            ("none", None) => RopeScaling::None,
            ("linear", None) => RopeScaling::Linear { factor: factor.unwrap_or(1.0) },
            (other, _) => return unsupported(format!("GGUF rope scaling `{other}`")),
        };
        Ok(Rope { theta, scaling })
    }
}

type Parsed = (BTreeMap<String, Value>, BTreeMap<String, TensorInfo>);

/// Reads and checks a whole header; the error says what is wrong and where.
pub fn parse(bytes: &[u8]) -> Result<Parsed, String> {
    let mut cursor = Cursor { bytes, at: 0 };
    if cursor.take(4)? != b"GGUF" {
        return Err("not a GGUF file".into());
    }
    let version = cursor.u32()?;
    if !(2..=3).contains(&version) {
        return Err(format!("GGUF version {version}; 2 and 3 are known"));
    }
    let (n_tensors, n_values) = (cursor.u64()?, cursor.u64()?);
    if n_tensors > TENSORS_MAX || n_values > VALUES_MAX {
        return Err(format!("header claims {n_tensors} tensors and {n_values} values"));
    }
    let mut values = BTreeMap::new();
    for _ in 0..n_values {
        let key = cursor.text()?;
        let kind = cursor.u32()?;
        let value = cursor.value(kind).map_err(|what| format!("value `{key}`: {what}"))?;
        if values.insert(key.clone(), value).is_some() {
            return Err(format!("value `{key}` appears twice"));
        }
    }
    let mut tensors = BTreeMap::new();
    for _ in 0..n_tensors {
        let name = cursor.text()?;
        let info = cursor.tensor().map_err(|what| format!("tensor `{name}`: {what}"))?;
        if tensors.insert(name.clone(), info).is_some() {
            return Err(format!("tensor `{name}` appears twice"));
        }
    }
    let alignment = values.get("general.alignment").and_then(Value::as_u64).unwrap_or(32);
    place(&mut tensors, cursor.at, alignment, bytes.len())?;
    Ok((values, tensors))
}

/// Turns offsets relative to the data section into checked byte ranges of the file.
fn place(tensors: &mut BTreeMap<String, TensorInfo>, header: usize, alignment: u64, len: usize) -> Result<(), String> {
    let alignment = usize::try_from(alignment).ok().filter(|a| a.is_power_of_two() && *a <= 1 << 20);
    let alignment = alignment.ok_or("alignment is not a sane power of two")?;
    let base = header.checked_next_multiple_of(alignment).ok_or("header too long")?;
    for (name, info) in tensors.iter_mut() {
        let fits = |n: usize| base.checked_add(n).filter(|&end| end <= len);
        if !info.start.is_multiple_of(alignment) {
            return Err(format!("tensor `{name}`: offset {} is not aligned to {alignment}", info.start));
        }
        let range = fits(info.start).zip(fits(info.end));
        let (start, end) = range.ok_or_else(|| format!("tensor `{name}` reaches beyond the end of the file"))?;
        (info.start, info.end) = (start, end);
    }
    let mut spans: Vec<_> = tensors.iter().map(|(name, info)| (info.start, info.end, name)).collect();
    spans.sort();
    for pair in spans.windows(2) {
        if pair[1].0 < pair[0].1 {
            return Err(format!("tensors `{}` and `{}` overlap", pair[0].2, pair[1].2));
        }
    }
    Ok(())
}

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn take(&mut self, n: usize) -> Result<&'a [u8], String> {
        let end = self.at.checked_add(n).filter(|&end| end <= self.bytes.len());
        let end = end.ok_or_else(|| format!("truncated at byte {}", self.at))?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    fn u32(&mut self) -> Result<u32, String> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, String> {
        self.array().map(u64::from_le_bytes)
    }

    fn len(&mut self, item_bytes: usize) -> Result<usize, String> {
        let n = self.u64()?;
        let left = self.bytes.len() - self.at;
        let n = usize::try_from(n).ok().filter(|n| n.checked_mul(item_bytes).is_some_and(|size| size <= left));
        n.ok_or_else(|| format!("length at byte {} exceeds the file", self.at - 8))
    }

    fn text(&mut self) -> Result<String, String> {
        let n = self.len(1)?;
        let at = self.at;
        let text = std::str::from_utf8(self.take(n)?).map_err(|_| format!("text at byte {at} is not UTF-8"))?;
        Ok(text.to_owned())
    }

    fn value(&mut self, kind: u32) -> Result<Value, String> {
        Ok(match kind {
            0 => Value::U64(u64::from(self.array::<1>()?[0])),
            1 => Value::I64(i64::from(i8::from_le_bytes(self.array()?))),
            2 => Value::U64(u64::from(u16::from_le_bytes(self.array()?))),
            3 => Value::I64(i64::from(i16::from_le_bytes(self.array()?))),
            4 => Value::U64(u64::from(self.u32()?)),
            5 => Value::I64(i64::from(i32::from_le_bytes(self.array()?))),
            6 => Value::F64(f64::from(f32::from_le_bytes(self.array()?))),
            7 => Value::Bool(self.array::<1>()?[0] != 0),
            8 => Value::Text(self.text()?),
            9 => self.list()?,
            10 => Value::U64(self.u64()?),
            11 => Value::I64(i64::from_le_bytes(self.array()?)),
            12 => Value::F64(f64::from_le_bytes(self.array()?)),
            other => return Err(format!("unknown value type {other}")),
        })
    }

    fn list(&mut self) -> Result<Value, String> {
        let kind = self.u32()?;
        let width = match kind {
            0 | 1 | 7 => 1,
            2 | 3 => 2,
            4..=6 => 4,
            8 | 10 | 11 | 12 => 8,
            other => return Err(format!("array of unknown type {other}")),
        };
        let n = self.len(width)?;
        match kind {
            8 => (0..n).map(|_| self.text()).collect::<Result<_, _>>().map(Value::Texts),
            6 => (0..n).map(|_| self.array().map(f32::from_le_bytes)).collect::<Result<_, _>>().map(Value::Floats),
            12 => {
                let floats = (0..n).map(|_| self.array().map(|b| f64::from_le_bytes(b) as f32));
                floats.collect::<Result<_, _>>().map(Value::Floats)
            }
            _ => {
                let ints = (0..n).map(|_| {
                    Ok(match self.value(kind)? {
                        Value::U64(x) => i64::try_from(x).map_err(|_| format!("integer {x} is too large"))?,
                        Value::I64(x) => x,
                        Value::Bool(x) => i64::from(x),
                        other => return Err(format!("{other:?} in an array of integers")),
                    })
                });
                ints.collect::<Result<_, _>>().map(Value::Ints)
            }
        }
    }

    fn tensor(&mut self) -> Result<TensorInfo, String> {
        let n_dims = self.u32()?;
        if !(1..=4).contains(&n_dims) {
            return Err(format!("{n_dims} dimensions"));
        }
        let mut dims = Vec::new();
        let mut n = 1usize;
        for _ in 0..n_dims {
            let dim = usize::try_from(self.u64()?).ok().filter(|&dim| dim > 0);
            let dim = dim.ok_or("a dimension of zero")?;
            n = n.checked_mul(dim).ok_or("more elements than fit in memory")?;
            dims.push(dim);
        }
        let id = self.u32()?;
        let start = usize::try_from(self.u64()?).map_err(|_| "offset too large")?;
        let encoding = Encoding::from_gguf(id).ok_or(id);
        let size = match encoding {
            Ok(encoding) if !dims[0].is_multiple_of(encoding.block().0) => {
                return Err(format!("rows of {} do not fill blocks of {}", dims[0], encoding.block().0));
            }
            Ok(encoding) => encoding.bytes_of(n).ok_or("more bytes than fit in memory")?,
            Err(_) => 0,
        };
        let end = start.checked_add(size).ok_or("offset too large")?;
        Ok(TensorInfo { dims, encoding, start, end })
    }
}
