//! OTLP in protobuf, in both directions: what is read becomes the JSON form of the same message, so that everything after this
//! knows one form alone.
//!
//! Reader and writer follow one table of the messages ([`shape`]). Fields that the table does not have are passed over, as protobuf
//! wants. A stranger's bytes cannot cost more than they should: messages nest and are counted up to a limit.

mod read;
mod shape;
mod write;

use super::FormatError;
use serde_json::{Map, Value};
use shape::Shape;

/// The messages that travel by themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message {
    /// Spans on their way: `ExportTraceServiceRequest`.
    Request,
    /// What became of them: `ExportTraceServiceResponse`.
    Response,
    /// Log records on their way: `ExportLogsServiceRequest`.
    Logs,
    /// What became of them: `ExportLogsServiceResponse`.
    LogsResponse,
    /// Why nothing became of them: `google.rpc.Status`.
    Status,
}

impl Message {
    fn shape(self) -> &'static Shape {
        match self {
            Self::Request => &shape::REQUEST,
            Self::Response => &shape::RESPONSE,
            Self::Logs => &shape::LOGS,
            Self::LogsResponse => &shape::LOGS_RESPONSE,
            Self::Status => &shape::STATUS,
        }
    }

    /// Reads the message into its JSON form.
    pub fn read(self, bytes: &[u8]) -> Result<Value, FormatError> {
        self.read_with(read::Reader::default(), bytes)
    }

    /// Reads the message into its JSON form. What nests too deep in it is left empty: who takes it apart refuses what holds it.
    pub fn read_in_parts(self, bytes: &[u8]) -> Result<Value, FormatError> {
        self.read_with(read::Reader::in_parts(), bytes)
    }

    fn read_with(self, mut reader: read::Reader, bytes: &[u8]) -> Result<Value, FormatError> {
        let mut fields = Map::new();
        reader.message(self.shape(), bytes, 0, &mut fields)?;
        Ok(Value::Object(fields))
    }

    /// Writes the message from its JSON form. What is not of the form that the table asks for is left out.
    pub fn write(self, message: &Value) -> Vec<u8> {
        let mut bytes = Vec::new();
        write::message(self.shape(), message, &mut bytes);
        bytes
    }
}
