//! Templates: what kind of ticket it is, before numbers and names are filled in.

use super::date::Date;
use super::exact::Exact;
use super::query::Query;
use super::record::Records;
use super::ticket::Ticket;
use super::unit::Unit;
use super::vocabulary::{Field, Kind, Level, NAMES, Operation, Sign, Slot, Topic, WORDS, Word};
use hone_trace::Draws;

/// Of requests that can lack a fact, how many do.
const MISSING_SHARE: f64 = 0.25;

/// A multiple of what every question has, so that all are equally frequent.
const N_PHRASINGS: usize = 36;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Template {
    pub(crate) level: Level,
    pub(crate) shape: Shape,
    pub(crate) is_missing: bool,
}

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Shape {
    Arithmetic(Sign),
    Convert,
    DateAdd,
    DateBetween,
    Weekday,
    Order(Field),
    Policy(Topic),
    Text(Operation),
}

impl Template {
    pub(crate) fn draw(kind: Kind, level: Level, draws: &mut Draws) -> Self {
        let shape = *draws.pick(&shapes(kind, level));
        let can_miss = match shape {
            Shape::Convert | Shape::DateAdd => true,
            Shape::Order(_) => level == Level::Hard,
            _ => false,
        };
        Self { level, shape, is_missing: can_miss && draws.chance(MISSING_SHARE) }
    }

    /// From 0 to 1: a tool is what makes a ticket hard; asking back and a second look-up add to it.
    pub(crate) fn difficulty(&self) -> f64 {
        let base = if self.level == Level::Easy { 0.2 } else { 0.7 };
        let steps =
            usize::from(self.is_missing) + usize::from(self.level == Level::Hard && matches!(self.shape, Shape::Policy(_)));
        base + 0.1 * steps as f64
    }

    pub(crate) fn fill(&self, draws: &mut Draws) -> Ticket {
        let needs_records = matches!(self.shape, Shape::Order(_) | Shape::Policy(_));
        let records = if needs_records { Records::draw(draws) } else { Records::default() };
        let missing = match self.shape {
            _ if !self.is_missing => None,
            Shape::Convert => Some(Slot::Unit),
            Shape::DateAdd => Some(Slot::Date),
            _ => Some(Slot::Order),
        };
        let topic = if let Shape::Policy(topic) = self.shape { Some(topic) } else { None };
        let query = self.query(&records, draws);
        let (phrasing, customer) = (draws.below(N_PHRASINGS), (*draws.pick(&NAMES)).to_owned());
        Ticket { level: self.level, query, topic, missing, phrasing, customer, records }
    }

    fn query(&self, records: &Records, draws: &mut Draws) -> Query {
        let is_easy = self.level == Level::Easy;
        match self.shape {
            Shape::Arithmetic(sign) => arithmetic(sign, is_easy, draws),
            Shape::Convert => {
                let (&(from, to), most) = if is_easy { (draws.pick(&EASY_UNITS), 99) } else { (draws.pick(&HARD_UNITS), 999) };
                Query::Convert { amount: Exact::whole(draws.between(if is_easy { 1 } else { 12 }, most)), from, to }
            }
            Shape::DateAdd => {
                let (date, days) = stretch(is_easy, draws);
                let days = if !is_easy && draws.chance(0.5) { -days } else { days };
                Query::DateAdd { date, days }
            }
            Shape::DateBetween => {
                let (date, days) = stretch(is_easy, draws);
                Query::DateBetween { date, until: date.plus(days).unwrap_or(date) }
            }
            Shape::Weekday => Query::Weekday { date: stretch(is_easy, draws).0 },
            Shape::Order(field) => Query::Lookup { order: draws.pick(&records.orders).order, field: Some(field) },
            Shape::Policy(_) => Query::Lookup { order: draws.pick(&records.orders).order, field: Some(Field::Category) },
            Shape::Text(operation) => text(operation, draws),
        }
    }
}

fn shapes(kind: Kind, level: Level) -> Vec<Shape> {
    let fields = [Field::Item, Field::Status, Field::City, Field::Total, Field::Name];
    match (kind, level) {
        (Kind::Arithmetic, _) => Sign::ALL.iter().map(|&sign| Shape::Arithmetic(sign)).collect(),
        (Kind::Conversion, _) => vec![Shape::Convert],
        (Kind::Date, Level::Easy) => vec![Shape::DateAdd, Shape::DateBetween],
        (Kind::Date, Level::Hard) => vec![Shape::DateAdd, Shape::DateBetween, Shape::Weekday],
        (Kind::Order, _) => fields.map(Shape::Order).to_vec(),
        (Kind::Policy, _) => Topic::ALL.iter().map(|&topic| Shape::Policy(topic)).collect(),
        (Kind::Text, Level::Easy) => [Operation::First, Operation::Last].map(Shape::Text).to_vec(),
        (Kind::Text, Level::Hard) => {
            [Operation::Reverse, Operation::Letters, Operation::Count, Operation::Sort].map(Shape::Text).to_vec()
        }
    }
}

/// By which the number only gets zeros.
const EASY_UNITS: [(Unit, Unit); 5] = [
    (Unit::Kilometre, Unit::Metre),
    (Unit::Metre, Unit::Centimetre),
    (Unit::Centimetre, Unit::Millimetre),
    (Unit::Kilogram, Unit::Gram),
    (Unit::Litre, Unit::Millilitre),
];

/// Whole amounts give at most three decimals.
const HARD_UNITS: [(Unit, Unit); 8] = [
    (Unit::Inch, Unit::Centimetre),
    (Unit::Foot, Unit::Centimetre),
    (Unit::Yard, Unit::Centimetre),
    (Unit::Mile, Unit::Metre),
    (Unit::Hour, Unit::Second),
    (Unit::Day, Unit::Hour),
    (Unit::Day, Unit::Minute),
    (Unit::Celsius, Unit::Fahrenheit),
];

fn arithmetic(sign: Sign, is_easy: bool, draws: &mut Draws) -> Query {
    let (small, large) = if is_easy { ((1, 12), (1, 12)) } else { ((12, 99), (101, 999)) };
    let (a, b) = (draws.between(large.0, large.1), draws.between(small.0, small.1));
    let (left, right) = match sign {
        Sign::Plus | Sign::Times => (a, b),
        Sign::Minus => (a.max(b), a.min(b)),
        // What is divided is a product, so that the quotient is whole.
        Sign::Over => (a * b, b),
    };
    Query::Calculate { expression: format!("{left} {} {right}", sign.word()) }
}

/// A day and a number of days: a few within the month when it is easy, up to a year or so otherwise.
fn stretch(is_easy: bool, draws: &mut Draws) -> (Date, i64) {
    let (year, month) = (draws.between(2020, 2029), draws.between(1, 12));
    let (last_day, least, most) = if is_easy { (18, 1, 9) } else { (28, 20, 400) };
    let date = Date::new(year, month, draws.between(1, last_day)).expect("every month has 28 days");
    (date, draws.between(least, most))
}

fn text(operation: Operation, draws: &mut Draws) -> Query {
    let n_words = match operation {
        Operation::Reverse => 1,
        Operation::First | Operation::Last => 3,
        Operation::Letters | Operation::Count | Operation::Sort => 4,
    };
    let mut words: Vec<String> = Vec::with_capacity(n_words);
    while words.len() < n_words {
        let word = *draws.pick(&WORDS);
        if !words.iter().any(|other| other == word) {
            words.push(word.to_owned());
        }
    }
    let letter = (operation == Operation::Count).then(|| {
        let letters = words[0].as_bytes();
        char::from(letters[draws.below(letters.len())])
    });
    Query::Text { operation, letter, words }
}
