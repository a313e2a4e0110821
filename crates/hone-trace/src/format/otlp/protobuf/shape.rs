//! The messages of OTLP that hone needs, field by field, as opentelemetry-proto has them.

/// A message: its fields, and whether at most one of them is there.
pub(super) struct Shape {
    pub(super) fields: &'static [Field],
    pub(super) is_one_of: bool,
}

/// A field: its number, its name in JSON, and what it holds.
pub(super) struct Field {
    pub(super) number: u64,
    pub(super) name: &'static str,
    pub(super) kind: Kind,
}

/// What a field holds, and what that is in JSON.
pub(super) enum Kind {
    /// A text.
    Text,
    /// Bytes that are written in hexadecimal digits: ids.
    Hex,
    /// Bytes that are written in base64.
    Bytes,
    Bool,
    Double,
    /// A number of 64 bits, which JSON has as a text.
    Fixed64,
    Int64,
    /// A number of 32 bits, which JSON has as a number.
    Fixed32,
    Int32,
    /// Another message.
    One(&'static Shape),
    /// A list of other messages.
    Many(&'static Shape),
}

const fn shape(fields: &'static [Field]) -> Shape {
    Shape { fields, is_one_of: false }
}

const fn field(number: u64, name: &'static str, kind: Kind) -> Field {
    Field { number, name, kind }
}

pub(super) static REQUEST: Shape = shape(&[field(1, "resourceSpans", Kind::Many(&RESOURCE_SPANS))]);

static RESOURCE_SPANS: Shape = shape(&[
    field(1, "resource", Kind::One(&RESOURCE)),
    field(2, "scopeSpans", Kind::Many(&SCOPE_SPANS)),
    field(3, "schemaUrl", Kind::Text),
]);

static RESOURCE: Shape = shape(&[field(1, "attributes", Kind::Many(&PAIR)), field(2, "droppedAttributesCount", Kind::Int32)]);

static SCOPE_SPANS: Shape =
    shape(&[field(1, "scope", Kind::One(&SCOPE)), field(2, "spans", Kind::Many(&SPAN)), field(3, "schemaUrl", Kind::Text)]);

static SCOPE: Shape = shape(&[
    field(1, "name", Kind::Text),
    field(2, "version", Kind::Text),
    field(3, "attributes", Kind::Many(&PAIR)),
    field(4, "droppedAttributesCount", Kind::Int32),
]);

static SPAN: Shape = shape(&[
    field(1, "traceId", Kind::Hex),
    field(2, "spanId", Kind::Hex),
    field(3, "traceState", Kind::Text),
    field(4, "parentSpanId", Kind::Hex),
    field(5, "name", Kind::Text),
    field(6, "kind", Kind::Int32),
    field(7, "startTimeUnixNano", Kind::Fixed64),
    field(8, "endTimeUnixNano", Kind::Fixed64),
    field(9, "attributes", Kind::Many(&PAIR)),
    field(10, "droppedAttributesCount", Kind::Int32),
    field(11, "events", Kind::Many(&EVENT)),
    field(12, "droppedEventsCount", Kind::Int32),
    field(13, "links", Kind::Many(&LINK)),
    field(14, "droppedLinksCount", Kind::Int32),
    field(15, "status", Kind::One(&SPAN_STATUS)),
    field(16, "flags", Kind::Fixed32),
]);

static EVENT: Shape = shape(&[
    field(1, "timeUnixNano", Kind::Fixed64),
    field(2, "name", Kind::Text),
    field(3, "attributes", Kind::Many(&PAIR)),
    field(4, "droppedAttributesCount", Kind::Int32),
]);

static LINK: Shape = shape(&[
    field(1, "traceId", Kind::Hex),
    field(2, "spanId", Kind::Hex),
    field(3, "traceState", Kind::Text),
    field(4, "attributes", Kind::Many(&PAIR)),
    field(5, "droppedAttributesCount", Kind::Int32),
    field(6, "flags", Kind::Fixed32),
]);

static SPAN_STATUS: Shape = shape(&[field(2, "message", Kind::Text), field(3, "code", Kind::Int32)]);

static PAIR: Shape = shape(&[field(1, "key", Kind::Text), field(2, "value", Kind::One(&ANY))]);

static ANY: Shape = Shape {
    fields: &[
        field(1, "stringValue", Kind::Text),
        field(2, "boolValue", Kind::Bool),
        field(3, "intValue", Kind::Int64),
        field(4, "doubleValue", Kind::Double),
        field(5, "arrayValue", Kind::One(&LIST)),
        field(6, "kvlistValue", Kind::One(&PAIRS)),
        field(7, "bytesValue", Kind::Bytes),
    ],
    is_one_of: true,
};

static LIST: Shape = shape(&[field(1, "values", Kind::Many(&ANY))]);

static PAIRS: Shape = shape(&[field(1, "values", Kind::Many(&PAIR))]);

pub(super) static LOGS: Shape = shape(&[field(1, "resourceLogs", Kind::Many(&RESOURCE_LOGS))]);

static RESOURCE_LOGS: Shape = shape(&[
    field(1, "resource", Kind::One(&RESOURCE)),
    field(2, "scopeLogs", Kind::Many(&SCOPE_LOGS)),
    field(3, "schemaUrl", Kind::Text),
]);

static SCOPE_LOGS: Shape = shape(&[
    field(1, "scope", Kind::One(&SCOPE)),
    field(2, "logRecords", Kind::Many(&LOG_RECORD)),
    field(3, "schemaUrl", Kind::Text),
]);

static LOG_RECORD: Shape = shape(&[
    field(1, "timeUnixNano", Kind::Fixed64),
    field(2, "severityNumber", Kind::Int32),
    field(3, "severityText", Kind::Text),
    field(5, "body", Kind::One(&ANY)),
    field(6, "attributes", Kind::Many(&PAIR)),
    field(7, "droppedAttributesCount", Kind::Int32),
    field(8, "flags", Kind::Fixed32),
    field(9, "traceId", Kind::Hex),
    field(10, "spanId", Kind::Hex),
    field(11, "observedTimeUnixNano", Kind::Fixed64),
    field(12, "eventName", Kind::Text),
]);

pub(super) static LOGS_RESPONSE: Shape = shape(&[field(1, "partialSuccess", Kind::One(&LOGS_PARTIAL))]);

static LOGS_PARTIAL: Shape = shape(&[field(1, "rejectedLogRecords", Kind::Int64), field(2, "errorMessage", Kind::Text)]);

pub(super) static RESPONSE: Shape = shape(&[field(1, "partialSuccess", Kind::One(&PARTIAL))]);

static PARTIAL: Shape = shape(&[field(1, "rejectedSpans", Kind::Int64), field(2, "errorMessage", Kind::Text)]);

pub(super) static STATUS: Shape = shape(&[field(1, "code", Kind::Int32), field(2, "message", Kind::Text)]);
