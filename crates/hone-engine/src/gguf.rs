//! GGUF, versions 2 and 3: a header of typed values, a table of tensors, then their blocks.
//!
//! Every length is compared with the bytes that are left before anything is reserved, so the memory used is bounded by
//! the size of the file. Offsets must be aligned, inside the file and free of overlap. Values are handed out raw
//! (tokenizer arrays, chat template): what they mean is the business of `hone-render`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::path::Path;

use crate::config::{Family, ModelConfig, Rope, RopeScaling, unsupported};
use crate::error::LoadError;
use crate::mapped::Mapped;
use crate::param::ParamId;
use crate::quant::Encoding;

const TENSORS_MAX: u64 = 1 << 16;
const VALUES_MAX: u64 = 1 << 16;

/// One divisor per rotary frequency, in files of Llama 3.
const ROPE_DIVISORS: &str = "rope_freqs.weight";

/// Values that change what is computed, unless they are 0.
const ZERO_OR_ABSENT: [&str; 6] = [
    "expert_count",
    "attention.scale",
    "attention.clamp_kqv",
    "attention.max_alibi_bias",
    "attn_logit_softcapping",
    "final_logit_softcapping",
];

/// Values that change what is computed, unless they are 1, or 0 for none.
const ONE_OR_ABSENT: [&str; 4] = ["logit_scale", "residual_scale", "embedding_scale", "rope.scaling.attn_factor"];

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
        self.described().map_err(|error| error.at(self.path()))
    }

    fn described(&self) -> Result<ModelConfig, LoadError> {
        let arch = self.values.get("general.architecture").and_then(Value::as_text).unwrap_or("");
        let family = match arch {
            "llama" => Family::Llama,
            "qwen2" => Family::Qwen2,
            "qwen3" => Family::Qwen3,
            other => return unsupported(format!("GGUF architecture `{other}`")),
        };
        let keys = Keys { arch, values: &self.values };
        let dim = keys.need("embedding_length")?;
        let n_heads = keys.need("attention.head_count")?;
        let context_len = keys.need("context_length")?;
        let head_dim = keys.count("attention.key_length")?.unwrap_or(dim / n_heads.max(1));
        if let Some(window) = keys.count("attention.sliding_window")?.filter(|&window| window < context_len) {
            return unsupported(format!("sliding window {window} is shorter than the context of {context_len}"));
        }
        keys.refuse_other_sums(head_dim)?;
        let embed = self.tensors.get("token_embd.weight");
        let vocab = embed.and_then(|info| info.dims.get(1)).copied().unwrap_or(0);
        ModelConfig {
            family,
            vocab,
            dim,
            n_layers: keys.need("block_count")?,
            n_heads,
            n_kv_heads: keys.count("attention.head_count_kv")?.unwrap_or(n_heads),
            head_dim,
            ffn_dim: keys.need("feed_forward_length")?,
            norm_eps: keys.number("attention.layer_norm_rms_epsilon")?.unwrap_or(1e-5) as f32,
            rope: self.rope(family, &keys)?,
            qkv_bias: self.tensors.contains_key("blk.0.attn_q.bias"),
            qk_norm: family == Family::Qwen3,
            tied_head: !self.tensors.contains_key("output.weight"),
            context_len,
        }
        .validated()
    }

    /// Stretched as llama.cpp does it: a factor without a type is linear, and old files have it as `rope.scale_linear`.
    fn rope(&self, family: Family, keys: &Keys<'_>) -> Result<Rope, LoadError> {
        let theta = keys.number("rope.freq_base")?.unwrap_or(10_000.0);
        let divisors = match self.tensors.get(ROPE_DIVISORS) {
            Some(info) if family == Family::Llama => Some(self.read(ROPE_DIVISORS, (1, info.dims.iter().product()))?),
            _ => None,
        };
        let factor = match keys.number("rope.scaling.factor")? {
            Some(factor) => Some(factor),
            None => keys.number("rope.scale_linear")?,
        };
        let factor = factor.filter(|&factor| factor != 0.0).unwrap_or(1.0);
        let kind = match keys.text("rope.scaling.type")?.unwrap_or("linear") {
            "linear" if factor == 1.0 => "none",
            kind => kind,
        };
        let scaling = match (kind, divisors) {
            ("none" | "llama3", Some(divisors)) => RopeScaling::Divisors(divisors),
            ("none", None) => RopeScaling::None,
            ("linear", None) => RopeScaling::Linear { factor },
            (other, _) => return unsupported(format!("GGUF rope scaling `{other}`")),
        };
        Ok(Rope { theta, scaling })
    }

    /// Refuses a file with a tensor that the model would leave unread, such as a bias that it does not add.
    pub(crate) fn check_all_read(&self, config: &ModelConfig) -> Result<(), LoadError> {
        let mut known: BTreeSet<String> = ParamId::all(config).into_iter().map(ParamId::gguf_name).collect();
        if matches!(config.rope.scaling, RopeScaling::Divisors(_)) {
            known.insert(ROPE_DIVISORS.into());
        }
        match self.tensors.keys().find(|name| !known.contains(*name)) {
            Some(name) => Err(LoadError::malformed(self.path(), format!("tensor `{name}` has no place in this model"))),
            None => Ok(()),
        }
    }
}

/// The values of one architecture. One of another type than it should have is refused, not passed over.
struct Keys<'a> {
    arch: &'a str,
    values: &'a BTreeMap<String, Value>,
}

impl<'a> Keys<'a> {
    fn get<T>(&self, key: &str, kind: &str, read: impl Fn(&'a Value) -> Option<T>) -> Result<Option<T>, LoadError> {
        let Some(value) = self.values.get(&format!("{}.{key}", self.arch)) else { return Ok(None) };
        match read(value) {
            Some(value) => Ok(Some(value)),
            None => unsupported(format!("GGUF `{}.{key}` is not {kind}", self.arch)),
        }
    }

    fn count(&self, key: &str) -> Result<Option<usize>, LoadError> {
        self.get(key, "a count", |value| value.as_u64().and_then(|count| usize::try_from(count).ok()))
    }

    fn need(&self, key: &str) -> Result<usize, LoadError> {
        self.count(key)?.map_or_else(|| unsupported(format!("GGUF has no `{}.{key}`", self.arch)), Ok)
    }

    fn number(&self, key: &str) -> Result<Option<f64>, LoadError> {
        self.get(key, "a number", Value::as_f64)
    }

    fn text(&self, key: &str) -> Result<Option<&'a str>, LoadError> {
        self.get(key, "text", Value::as_text)
    }

    fn flag(&self, key: &str) -> Result<Option<bool>, LoadError> {
        self.get(key, "a truth value", |value| if let Value::Bool(flag) = value { Some(*flag) } else { None })
    }

    /// Refuses what would change the sums of the forward pass and is not computed.
    fn refuse_other_sums(&self, head_dim: usize) -> Result<(), LoadError> {
        let refuse = |key: &str, value: &dyn Display| unsupported(format!("GGUF `{}.{key}` = {value}", self.arch));
        for key in ["rope.dimension_count", "attention.value_length"] {
            if let Some(width) = self.count(key)?.filter(|&width| width != head_dim) {
                return refuse(key, &format_args!("{width} with heads of width {head_dim}"));
            }
        }
        for (key, plain) in [("attention.causal", true), ("use_parallel_residual", false)] {
            if let Some(flag) = self.flag(key)?.filter(|&flag| flag != plain) {
                return refuse(key, &flag);
            }
        }
        for key in ZERO_OR_ABSENT {
            if let Some(number) = self.number(key)?.filter(|&number| number != 0.0) {
                return refuse(key, &number);
            }
        }
        for key in ONE_OR_ABSENT {
            if let Some(number) = self.number(key)?.filter(|&number| number != 0.0 && number != 1.0) {
                return refuse(key, &number);
            }
        }
        Ok(())
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
