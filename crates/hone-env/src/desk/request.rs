//! What a customer writes in the natural dialect: every ticket in several phrasings.

use super::query::Query;
use super::record::Order;
use super::ticket::Ticket;
use super::vocabulary::{Field, Level, Operation, Topic, Word};

/// What the customer writes.
pub(crate) fn request(ticket: &Ticket) -> String {
    let question = question(ticket);
    let name = capital(&ticket.customer);
    // Who asks for the name on an order does not say another one.
    let asks_name = matches!(ticket.query, Query::Lookup { field: Some(Field::Name), .. });
    match ticket.phrasing / 12 % 3 {
        _ if asks_name => question,
        0 => question,
        1 => format!("Hello, this is {name}. {question}"),
        _ => format!("{question} Thank you, {name}"),
    }
}

fn question(ticket: &Ticket) -> String {
    let phrasing = ticket.phrasing;
    match &ticket.query {
        Query::Calculate { expression } => calculation(expression, phrasing),
        Query::Convert { amount, from, to } => {
            let amount = match ticket.missing {
                Some(_) => amount.to_string(),
                None => format!("{amount} {}", from.plural()),
            };
            let to = to.plural();
            match phrasing % 3 {
                0 => format!("How much is {amount} in {to}?"),
                1 => format!("Please convert {amount} to {to}."),
                _ => format!("My form wants {to}, but all I have is {amount}. What do I write?"),
            }
        }
        Query::DateAdd { date, days } => {
            let start = if ticket.missing.is_some() { "the day of my purchase".to_owned() } else { date.to_string() };
            let (n_days, side) = (days.unsigned_abs(), if *days < 0 { "before" } else { "after" });
            let unit = if n_days == 1 { "day" } else { "days" };
            match phrasing % 3 {
                0 => format!("Which date is {n_days} {unit} {side} {start}?"),
                1 => format!("I need the date {n_days} {unit} {side} {start}."),
                _ => format!("My appointment is {n_days} {unit} {side} {start}. On which date is that?"),
            }
        }
        Query::DateBetween { date, until } => match phrasing % 3 {
            0 => format!("How many days is it from {date} to {until}?"),
            1 => format!("I rented a car on {date} and gave it back on {until}. How many days later was that?"),
            _ => format!("Please count the days from {date} until {until}."),
        },
        Query::Weekday { date } => match phrasing % 3 {
            0 => format!("Which day of the week is {date}?"),
            1 => format!("My parcel comes on {date}. What weekday is that?"),
            _ => format!("Please tell me the weekday of {date}."),
        },
        Query::Lookup { order, field } => {
            let number = if ticket.missing.is_some() { "my order".to_owned() } else { format!("order {order}") };
            let asked = match ticket.topic {
                Some(topic) => policy(topic, &number, phrasing),
                None => lookup(field.unwrap_or(Field::Status), &number, phrasing),
            };
            facts(ticket) + &asked
        }
        Query::Policy { category, topic } => policy(*topic, category, phrasing),
        Query::Text { operation, letter, words } => text_work(*operation, *letter, words, phrasing),
    }
}

fn calculation(expression: &str, phrasing: usize) -> String {
    let mut parts = expression.split(' ');
    let (Some(a), Some(sign), Some(b), None) = (parts.next(), parts.next(), parts.next(), parts.next()) else {
        return format!("What is {expression}?");
    };
    match (phrasing % 4, sign) {
        (0, _) => format!("What is {expression}?"),
        (1, _) => format!("Please work out {expression} for me."),
        (2, "+") => {
            format!("I bought something for {a} euros and something else for {b} euros. What do I pay together, in euros?")
        }
        (2, "-") => format!("I had {a} points and spent {b} of them. How many are left?"),
        (2, "*") => format!("I want {a} boxes with {b} pens in each. How many pens is that?"),
        (2, _) => format!("We share {a} euros equally among {b} people. How many euros does each get?"),
        (_, "+") => format!("What is the sum of {a} and {b}?"),
        (_, "-") => format!("What do I get when I subtract {b} from {a}?"),
        (_, "*") => format!("What is {a} times {b}?"),
        (_, _) => format!("What is {a} divided by {b}?"),
    }
}

fn lookup(field: Field, order: &str, phrasing: usize) -> String {
    let (plain, other) = match field {
        Field::Item => ("Which item was ordered with", "What is in"),
        Field::Category => ("What is the category of", "Which category is"),
        Field::Status => ("What is the status of", "How far along is"),
        Field::City => ("Which city is the destination of", "Which city goes with"),
        Field::Total => ("What is the total in euros of", "How many euros were paid for"),
        Field::Name => ("What is the name of the customer on", "Whose name is on"),
    };
    format!("{} {order}?", if phrasing.is_multiple_of(2) { plain } else { other })
}

fn policy(topic: Topic, what: &str, phrasing: usize) -> String {
    match (topic, phrasing.is_multiple_of(2)) {
        (Topic::Return, true) => format!("For how many days can {what} be returned?"),
        (Topic::Return, false) => format!("How many days do I have to send {what} back?"),
        (Topic::Warranty, true) => format!("How many months of warranty are there on {what}?"),
        (Topic::Warranty, false) => format!("For how many months is {what} under warranty?"),
        (Topic::Fee, true) => format!("What is the handling fee in euros for {what}?"),
        (Topic::Fee, false) => format!("How many euros of handling fee do you charge on {what}?"),
    }
}

/// What an easy ticket says of its order.
fn facts(ticket: &Ticket) -> String {
    let (Level::Easy, Some(order)) = (ticket.level, ticket.order()) else { return String::new() };
    let (number, category) = (order.order, &order.category);
    if let (Some(_), Some(policy)) = (ticket.topic, ticket.records.policy(category)) {
        let [days, months, euros] = [Topic::Return, Topic::Warranty, Topic::Fee].map(|topic| policy.topic(topic));
        return format!(
            "Order {number} is in the category {category}. Your site says for {category}: {days} days to return, {months} months \
             of warranty, a handling fee of {euros} euros. "
        );
    }
    let (one, two) = ticket.stated_fields();
    format!("Your mail about order {number} says: {}, {}. ", fact(order, one), fact(order, two))
}

fn fact(order: &Order, field: Field) -> String {
    format!("{} {}", field.word(), order.field(field))
}

fn text_work(operation: Operation, letter: Option<char>, words: &[String], phrasing: usize) -> String {
    let (text, is_plain) = (words.join(" "), phrasing.is_multiple_of(2));
    match (operation, letter) {
        (Operation::First, _) if is_plain => format!("What is the first word of: {text}?"),
        (Operation::First, _) => format!("My voucher reads \"{text}\". Which word comes first?"),
        (Operation::Last, _) if is_plain => format!("What is the last word of: {text}?"),
        (Operation::Last, _) => format!("My voucher reads \"{text}\". Which word comes last?"),
        (Operation::Reverse, _) if is_plain => format!("How is \"{text}\" written backwards?"),
        (Operation::Reverse, _) => format!("My code is \"{text}\" with its letters in reverse. What is it?"),
        (Operation::Sort, _) if is_plain => format!("Please put these words in alphabetical order: {text}"),
        (Operation::Sort, _) => format!("In alphabetical order, how does this list read: {text}?"),
        (Operation::Count, Some(letter)) if is_plain => format!("How often is the letter {letter} in: {text}?"),
        (Operation::Count, Some(letter)) => format!("Please count every {letter} in \"{text}\"."),
        (Operation::Letters | Operation::Count, _) if is_plain => format!("How many letters are in: {text}?"),
        (Operation::Letters | Operation::Count, _) => {
            format!("An engraving costs by the letter. How many letters has \"{text}\"?")
        }
    }
}

fn capital(word: &str) -> String {
    let mut chars = word.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}
