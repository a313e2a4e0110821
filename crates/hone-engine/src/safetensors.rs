//! Safetensors, read and written: a length, a JSON table, then the raw bytes.
//!
//! The reader demands what the format promises: a table of bounded size, every tensor's byte count equal to its shape,
//! and ranges that cover the data section without gap or overlap. The writer is canonical (names sorted, f32), so equal
//! tensors give equal bytes, which is what adapter hashes are taken of. Knows nothing of models.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Write as _;
use std::path::Path;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};

use crate::error::LoadError;
use crate::mapped::Mapped;
use crate::quant::Encoding;

const HEADER_MAX: u64 = 32 << 20;

/// Where one tensor lies.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TensorInfo {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: [usize; 2],
}

impl TensorInfo {
    /// Sizes, the slowest-running first.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }
}

/// A mapped safetensors file with its table read and checked.
#[derive(Debug)]
pub struct SafeTensors {
    file: Mapped,
    data: usize,
    tensors: BTreeMap<String, TensorInfo>,
}

impl SafeTensors {
    /// Maps a file and checks its table.
    pub fn open(path: &Path) -> Result<Self, LoadError> {
        let file = Mapped::open(path)?;
        let (data, tensors) = parse(file.bytes()).map_err(|what| LoadError::malformed(path, what))?;
        Ok(Self { file, data, tensors })
    }

    /// Tensors by name.
    pub fn tensors(&self) -> &BTreeMap<String, TensorInfo> {
        &self.tensors
    }

    /// The file.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// The whole file.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.file.bytes()
    }

    /// Decodes a tensor of the expected shape (rows, columns); a vector counts as one row.
    pub fn read(&self, name: &str, shape: (usize, usize)) -> Result<Vec<f32>, LoadError> {
        self.find(name, shape).map(|(encoding, bytes)| encoding.decode(bytes))
    }

    /// Where a tensor of the expected shape is, and how it is written.
    pub(crate) fn find(&self, name: &str, shape: (usize, usize)) -> Result<(Encoding, &[u8]), LoadError> {
        let info = self.tensors.get(name).ok_or_else(|| LoadError::missing(self.path(), name))?;
        let found = match info.shape[..] {
            [columns] => (1, columns),
            [rows, columns] => (rows, columns),
            _ => (0, 0),
        };
        if found != shape {
            let what = format!("tensor `{name}` has shape {:?} where {shape:?} is needed", info.shape);
            return Err(LoadError::malformed(self.path(), what));
        }
        let encoding = match &info.dtype[..] {
            "F32" => Encoding::F32,
            "F16" => Encoding::F16,
            "BF16" => Encoding::Bf16,
            other => {
                let what = format!("tensor `{name}` has element type {other}; F32, F16 and BF16 are known");
                return Err(LoadError::malformed(self.path(), what));
            }
        };
        let [start, end] = info.data_offsets;
        Ok((encoding, &self.file.bytes()[self.data + start..self.data + end]))
    }
}

/// Reads and checks a table; returns where the data section begins and the tensors.
pub fn parse(bytes: &[u8]) -> Result<(usize, BTreeMap<String, TensorInfo>), String> {
    let length = bytes.first_chunk::<8>().ok_or("shorter than its length field")?;
    let length = u64::from_le_bytes(*length);
    if length > HEADER_MAX || length > bytes.len() as u64 - 8 {
        return Err(format!("the table claims {length} bytes in a file of {}", bytes.len()));
    }
    let data = 8 + length as usize;
    let Table(tensors) = serde_json::from_slice(&bytes[8..data]).map_err(|error| format!("table: {error}"))?;
    let mut spans = Vec::with_capacity(tensors.len());
    for (name, info) in &tensors {
        let [start, end] = info.data_offsets;
        let width = width(&info.dtype).ok_or_else(|| format!("tensor `{name}`: unknown type {}", info.dtype))?;
        let size = info.shape.iter().try_fold(width, |size, &dim| size.checked_mul(dim));
        if size.is_none() || end.checked_sub(start) != size {
            return Err(format!("tensor `{name}`: bytes {start}..{end} do not hold shape {:?}", info.shape));
        }
        spans.push((start, end, name));
    }
    spans.sort();
    let mut covered = 0;
    for (start, end, name) in spans {
        if start != covered {
            return Err(format!("tensor `{name}` begins at {start} where {covered} was expected"));
        }
        covered = end;
    }
    if covered != bytes.len() - data {
        return Err(format!("tensors cover {covered} of {} data bytes", bytes.len() - data));
    }
    Ok((data, tensors))
}

/// Bytes of a file with these f32 tensors: sorted by name, table padded to eight bytes.
pub fn encode(tensors: &BTreeMap<String, (Vec<usize>, Vec<f32>)>, metadata: &BTreeMap<String, String>) -> Vec<u8> {
    let mut table = serde_json::Map::new();
    if !metadata.is_empty() {
        table.insert("__metadata__".into(), serde_json::json!(metadata));
    }
    let mut at = 0;
    for (name, (shape, values)) in tensors {
        assert_eq!(shape.iter().product::<usize>(), values.len(), "{name}");
        let end = at + 4 * values.len();
        table.insert(name.clone(), serde_json::json!({"dtype": "F32", "shape": shape, "data_offsets": [at, end]}));
        at = end;
    }
    let mut json = serde_json::Value::Object(table).to_string().into_bytes();
    json.resize(json.len().next_multiple_of(8), b' ');
    let mut bytes = Vec::with_capacity(8 + json.len() + at);
    bytes.extend((json.len() as u64).to_le_bytes());
    bytes.extend(json);
    for (_, values) in tensors.values() {
        bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    }
    bytes
}

/// Writes a file whole or not at all: a temporary beside it, fsync, rename.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), LoadError> {
    let temporary = path.with_extension("partial");
    let write = || -> std::io::Result<()> {
        let mut file = std::fs::File::create(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(&temporary, path)?;
        // The rename is durable only once the folder is.
        match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => std::fs::File::open(folder)?.sync_all(),
            _ => Ok(()),
        }
    };
    write().map_err(|error| {
        // A half of it is of no use, and takes room that others need.
        drop(std::fs::remove_file(&temporary));
        LoadError::io(path)(error)
    })
}

fn width(dtype: &str) -> Option<usize> {
    Some(match dtype {
        "F64" | "I64" | "U64" => 8,
        "F32" | "I32" | "U32" => 4,
        "F16" | "BF16" | "I16" | "U16" => 2,
        "I8" | "U8" | "BOOL" | "F8_E4M3" | "F8_E5M2" => 1,
        _ => return None,
    })
}

/// The table without its metadata; a name that appears twice is an error.
struct Table(BTreeMap<String, TensorInfo>);

impl<'de> Deserialize<'de> for Table {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Table;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table of tensors")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Table, A::Error> {
                let mut tensors = BTreeMap::new();
                while let Some(name) = map.next_key::<String>()? {
                    if name == "__metadata__" {
                        map.next_value::<BTreeMap<String, String>>()?;
                    } else if tensors.insert(name.clone(), map.next_value()?).is_some() {
                        return Err(A::Error::custom(format!("tensor `{name}` appears twice")));
                    }
                }
                Ok(Table(tensors))
            }
        }
        deserializer.deserialize_map(Entries)
    }
}
