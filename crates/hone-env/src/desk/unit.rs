//! Units of measurement, converted exactly.
//!
//! A unit is a line: value in the base unit = (amount + offset) x factor. Only temperatures have an offset.

use super::exact::Exact;
use super::vocabulary::Word;

word_list! {
    /// A unit by its short name.
    Unit {
        Millimetre = "mm", Centimetre = "cm", Metre = "m", Kilometre = "km", Inch = "inch", Foot = "foot", Yard = "yard",
        Mile = "mile", Gram = "g", Kilogram = "kg", Second = "s", Minute = "min", Hour = "h", Day = "day", Millilitre = "ml",
        Litre = "l", Celsius = "celsius", Fahrenheit = "fahrenheit",
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dimension {
    Length,
    Mass,
    Time,
    Volume,
    Temperature,
}

impl Unit {
    /// How people write it.
    pub(crate) fn plural(self) -> &'static str {
        match self {
            Self::Millimetre => "millimetres",
            Self::Centimetre => "centimetres",
            Self::Metre => "metres",
            Self::Kilometre => "kilometres",
            Self::Inch => "inches",
            Self::Foot => "feet",
            Self::Yard => "yards",
            Self::Mile => "miles",
            Self::Gram => "grams",
            Self::Kilogram => "kilograms",
            Self::Second => "seconds",
            Self::Minute => "minutes",
            Self::Hour => "hours",
            Self::Day => "days",
            Self::Millilitre => "millilitres",
            Self::Litre => "litres",
            Self::Celsius => "degrees Celsius",
            Self::Fahrenheit => "degrees Fahrenheit",
        }
    }

    /// Reads a short name, or how people write it.
    pub(crate) fn find(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let spoken = Self::ALL.iter().copied().find(|unit| {
            let plural = unit.plural();
            text.eq_ignore_ascii_case(plural) || plural.strip_suffix('s').is_some_and(|one| text.eq_ignore_ascii_case(one))
        });
        spoken.map_or_else(|| Self::read(text), Ok)
    }

    /// What is measured, and the factor to the base unit as a fraction.
    fn scale(self) -> (Dimension, i128, i128) {
        match self {
            Self::Millimetre => (Dimension::Length, 1, 1000),
            Self::Centimetre => (Dimension::Length, 1, 100),
            Self::Metre => (Dimension::Length, 1, 1),
            Self::Kilometre => (Dimension::Length, 1000, 1),
            Self::Inch => (Dimension::Length, 254, 10_000),
            Self::Foot => (Dimension::Length, 3048, 10_000),
            Self::Yard => (Dimension::Length, 9144, 10_000),
            Self::Mile => (Dimension::Length, 1_609_344, 1000),
            Self::Gram => (Dimension::Mass, 1, 1),
            Self::Kilogram => (Dimension::Mass, 1000, 1),
            Self::Second => (Dimension::Time, 1, 1),
            Self::Minute => (Dimension::Time, 60, 1),
            Self::Hour => (Dimension::Time, 3600, 1),
            Self::Day => (Dimension::Time, 86_400, 1),
            Self::Millilitre => (Dimension::Volume, 1, 1),
            Self::Litre => (Dimension::Volume, 1000, 1),
            Self::Celsius => (Dimension::Temperature, 1, 1),
            Self::Fahrenheit => (Dimension::Temperature, 5, 9),
        }
    }

    /// What is added before scaling, in hundredths.
    fn offset(self) -> i128 {
        match self {
            Self::Celsius => 27_315,
            Self::Fahrenheit => 45_967,
            _ => 0,
        }
    }
}

/// The same amount in another unit.
pub(crate) fn convert(amount: Exact, from: Unit, to: Unit) -> Result<Exact, String> {
    let ((dimension, from_n, from_d), (other, to_n, to_d)) = (from.scale(), to.scale());
    if dimension != other {
        return Err(format!("{} cannot be converted to {}", from.word(), to.word()));
    }
    let converted = || {
        let base = amount.plus(Exact::new(from.offset(), 100)?)?.times(Exact::new(from_n, from_d)?)?;
        base.over(Exact::new(to_n, to_d)?)?.minus(Exact::new(to.offset(), 100)?)
    };
    converted().ok_or_else(|| "the number is too large".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(amount: &str, from: &str, to: &str, expected: Result<&str, &str>) {
        let units = (Unit::find(from).unwrap(), Unit::find(to).unwrap());
        let found = convert(Exact::read(amount).unwrap(), units.0, units.1).map(|number| number.to_string());
        assert_eq!(found.as_deref().map_err(String::as_str), expected, "{amount} {from} {to}");
    }

    #[test]
    fn conversions_are_exact() {
        check("12", "km", "m", Ok("12000"));
        check("387", "inch", "cm", Ok("982.98"));
        check("26", "miles", "Kilometres", Ok("41.842944"));
        check("1", "yard", "feet", Ok("3"));
        check("3", "day", "s", Ok("259200"));
        check("2.5", "litre", "ml", Ok("2500"));
        check("100", "celsius", "fahrenheit", Ok("212"));
        check("-40", "fahrenheit", "degrees celsius", Ok("-40"));
        check("1", "s", "h", Ok("1/3600"));
        check("5", "m", "m", Ok("5"));
    }

    #[test]
    fn what_cannot_be_converted_is_said() {
        check("5", "kg", "m", Err("kg cannot be converted to m"));
        assert!(Unit::find("parsec").unwrap_err().starts_with("`parsec` is none of mm, cm"));
    }
}
