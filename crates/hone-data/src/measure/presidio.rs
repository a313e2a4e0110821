//! A line of the research set of Presidio: a sentence with its spans, whose places are counted in characters.

use super::Labelled;
use crate::anonymise::{Found, Kind};
use serde::Deserialize;

#[derive(Deserialize)]
struct Row {
    full_text: String,
    spans: Vec<Span>,
}

#[derive(Deserialize)]
struct Span {
    entity_type: String,
    start_position: usize,
    end_position: usize,
}

/// The text of a line with what is personal in it, as far as it is a kind of ours: organisations, places and dates are not.
pub fn read(line: &str) -> Result<Labelled, serde_json::Error> {
    let Row { full_text: text, spans } = serde_json::from_str(line)?;
    let places: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
    let label = |span: Span| {
        let (start, end) = (*places.get(span.start_position)?, *places.get(span.end_position)?);
        Some(Found { kind: kind(&span.entity_type)?, range: start..end })
    };
    Ok(Labelled { labels: spans.into_iter().filter_map(label).collect(), text })
}

fn kind(name: &str) -> Option<Kind> {
    Some(match name {
        "EMAIL_ADDRESS" => Kind::Email,
        "PHONE_NUMBER" => Kind::Phone,
        "CREDIT_CARD" => Kind::Card,
        "IBAN_CODE" => Kind::Iban,
        "IP_ADDRESS" => Kind::Ip,
        "US_SSN" => Kind::Ssn,
        "US_DRIVER_LICENSE" => Kind::NationalId,
        "PERSON" => Kind::Name,
        "STREET_ADDRESS" => Kind::Address,
        _ => return None,
    })
}
