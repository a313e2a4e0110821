//! The kinds of facts: each draws its values, writes its thread and says what can be asked about it.
//!
//! In some threads a later mail takes back what an earlier one said; the question is always for what holds in the end.

use super::answer::Kind;
use super::fact::{Drawing, Fact, Question, euros, slug};
use super::mail::Thread;

/// All kinds that a mailbox is filled with, in turn.
pub(super) const ALL: &[fn(&mut Drawing<'_>) -> Fact] = &[invoice, meeting, deadline, trip, handover, document, order];

fn invoice(of: &mut Drawing<'_>) -> Fact {
    let (cast, project) = (of.cast, of.project());
    let vendor = of.draws.pick(&cast.vendors);
    let finance = cast.colleague(&mut of.draws);
    let number = of.draws.between(1000, 9999);
    let (first, has_changed) = (of.opening(), of.draws.chance(0.35));
    let net = of.draws.between(40, 9000) * 125;
    let due = of.day_after(first.day(), 21, 35);
    let service = of.draws.pick(&["the delivery", "maintenance work", "services", "materials", "the monthly subscription"]);
    let mut total = net * 6 / 5;
    let mut thread = Thread::new(format!("Invoice {number} from {} for project {project}", vendor.name));
    let text = format!(
        "Dear {},\n\nplease find attached invoice {number} for {service} to project {project}.\n\nNet amount: {}\nVAT 20 %: \
         {}\nTotal: {}\nPayable by {}.\n\nPlease state the number of the invoice with your payment.\n\n{}",
        cast.owner.first,
        euros(net),
        euros(total - net),
        euros(total),
        due.long(),
        vendor.signature()
    );
    thread.say(first, vendor.address(), cast.owner.address(), &text).attach(format!("invoice-{number}.pdf"));
    let mut last = first;
    if has_changed {
        last = of.after(last);
        total -= of.draws.between(1, 30) * net / 125;
        let reason = of.draws.pick(&["an item was listed twice", "the agreed discount was missing", "a delivery was cancelled"]);
        let text = format!(
            "Dear {},\n\nour invoice {number} contained a mistake: {reason}. The corrected total is {}; the date of payment stays \
             as it was. The corrected document is attached and replaces the first one.\n\n{}",
            cast.owner.first,
            euros(total),
            vendor.signature()
        );
        thread.say(last, vendor.address(), cast.owner.address(), &text).attach(format!("invoice-{number}-corrected.pdf"));
    }
    last = of.after(last);
    let text =
        format!("Hi {},\n\ncould you check this one against the order and release it?\n\n{}", finance.first, cast.owner.first);
    thread.say(last, cast.owner.address(), finance.address(), &text);
    last = of.after(last);
    let text = format!("Checked against the order and released.\n\n{}\n{}", finance.first, finance.role);
    thread.say(last, finance.address(), cast.owner.address(), &text);
    let (total, vendor, due) = (euros(total), vendor.name, due.long());
    Fact {
        key: format!("invoice-{number}"),
        keywords: vec!["invoice".into(), number.to_string(), vendor.into()],
        thread,
        questions: vec![
            Question::new(
                "invoice",
                "total",
                Kind::Number,
                &total,
                &[
                    format!("What was the total of invoice {number} from {vendor}?"),
                    format!("How much do we owe {vendor} for invoice {number} in all?"),
                ],
            )
            .told_by(format!("otal{}{total}", if has_changed { " is " } else { ": " }))
            .changed(has_changed),
            Question::new(
                "invoice",
                "due",
                Kind::Date,
                &due,
                &[
                    format!("By which date is invoice {number} from {vendor} to be paid?"),
                    format!("When is the payment of {vendor}'s invoice {number} due?"),
                ],
            ),
        ],
    }
}

const ROOMS: &[&str] = &[
    "Aurora 1.02",
    "Baltic 2.14",
    "Cedar 0.11",
    "Dune 3.07",
    "Elbe 1.18",
    "Fjord 4.01",
    "Grove 2.03",
    "Heron 3.22",
    "Iris 0.05",
    "Jasper 4.16",
    "Koala 1.09",
    "Lagoon 2.20",
    "Maple 3.13",
    "Nordic 0.17",
    "Opal 4.08",
];

fn meeting(of: &mut Drawing<'_>) -> Fact {
    let (cast, project) = (of.cast, of.project());
    let (host, guest) = cast.pair(&mut of.draws);
    let kind = *of.draws.pick(&[
        "design review",
        "kick-off",
        "sprint demo",
        "budget review",
        "retrospective",
        "steering committee",
        "security audit",
        "customer workshop",
    ]);
    let first = of.opening();
    let day = of.day_after(first.day(), 16, 35);
    let clock = |minutes: i64| format!("{:02}:{:02}", minutes / 60, minutes % 60);
    let (mut room, mut minute) = (*of.draws.pick(ROOMS), of.draws.between(16, 34) * 30);
    let luck = of.draws.below(20);
    let (is_open, is_moved, is_later) = (luck < 3, (3..9).contains(&luck), (9..13).contains(&luck));
    let mut thread = Thread::new(format!("{project} {kind} on {}", day.short()));
    let place = if is_open { "The room will follow.".to_owned() } else { format!("We meet in room {room}.") };
    let text = format!(
        "Hi all,\n\nthe {kind} of {project} takes place on {} at {}. {place}\n\nPlease send me your points for the agenda two days \
         before.\n\n{}\n{}",
        day.long(),
        clock(minute),
        host.first,
        host.role
    );
    thread.say(first, host.address(), cast.owner.address(), &text);
    let mut last = of.after(first);
    let text = if is_open { "Do we know the room yet? I have to register a visitor." } else { of.thanks() };
    thread.say(last, guest.address(), host.address(), &format!("{text}\n\n{}", guest.first));
    if is_open {
        last = of.after(last);
        let text = format!("Facilities has not confirmed one yet. I will let you all know.\n\n{}", host.first);
        thread.say(last, host.address(), guest.address(), &text);
    }
    if is_moved {
        (last, room) = (of.after(last), of.other(ROOMS, room));
        let text = format!("Hi all,\n\nour room is double-booked. We move to room {room}; day and time stay.\n\n{}", host.first);
        thread.say(last, host.address(), cast.owner.address(), &text);
    }
    if is_later {
        (last, minute) = (of.after(last), minute + of.draws.between(1, 4) * 15);
        let text = format!(
            "Hi all,\n\nwe have to begin later: the {kind} now starts at {}. The rest stays.\n\n{}",
            clock(minute),
            host.first
        );
        thread.say(last, host.address(), cast.owner.address(), &text);
    }
    let (minute, name) = (clock(minute), format!("{kind} of {project} on {}", day.short()));
    let asked = [format!("In which room is the {name}?"), format!("Where does the {name} take place? Name the room.")];
    let place = if is_open {
        Question::unanswerable("room", &asked)
    } else {
        Question::new("meeting", "room", Kind::Text, room, &asked).changed(is_moved)
    };
    Fact {
        key: format!("meeting-{}-{}-{}", slug(project), slug(kind), day.iso()),
        keywords: vec![project.into(), kind.into(), day.short()],
        thread,
        questions: vec![
            place,
            Question::new(
                "meeting",
                "time",
                Kind::Clock,
                &minute,
                &[format!("At what time does the {name} begin?"), format!("When, on the day, do we start with the {name}?")],
            )
            .told_by(format!(" at {minute}"))
            .changed(is_later),
        ],
    }
}

fn deadline(of: &mut Drawing<'_>) -> Fact {
    let (cast, project) = (of.cast, of.project());
    let (lead, author) = cast.pair(&mut of.draws);
    let work = *of.draws.pick(&[
        "test report",
        "risk register",
        "user manual",
        "migration plan",
        "data protection statement",
        "cost estimate",
        "acceptance protocol",
        "interface specification",
        "training concept",
        "final presentation",
        "status report",
        "tender reply",
    ]);
    let (first, has_changed) = (of.opening(), of.draws.chance(0.5));
    let mut due = of.day_after(first.day(), 14, 50);
    let mut thread = Thread::new(format!("{project}: {work}"));
    let text = format!(
        "Hi {},\n\nthe {work} for {project} is due on {}. {author} will prepare the draft; please review it before it goes \
         out.\n\n{}\n{}",
        cast.owner.first,
        due.long(),
        lead.first,
        lead.role
    );
    thread.say(first, lead.address(), cast.owner.address(), &text);
    let mut last = of.after(first);
    thread.say(last, cast.owner.address(), lead.address(), &format!("{}\n\n{}", of.thanks(), cast.owner.first));
    if has_changed {
        (last, due) = (of.after(last), of.day_after(due, 5, 21));
        let reason = of.draws.pick(&["The customer asked for more time", "Two people are ill", "We wait for the measurements"]);
        let text = format!("Hi {},\n\n{reason}, so the {work} is now due on {}.\n\n{}", cast.owner.first, due.long(), lead.first);
        thread.say(last, lead.address(), cast.owner.address(), &text);
    }
    let due = due.long();
    Fact {
        key: format!("deadline-{}-{}", slug(project), slug(work)),
        keywords: vec![project.into(), work.into()],
        thread,
        questions: vec![
            Question::new(
                "deadline",
                "date",
                Kind::Date,
                &due,
                &[
                    format!("When is the {work} for {project} due?"),
                    format!("What is the deadline of the {work} for {project}, after all changes?"),
                ],
            )
            .changed(has_changed),
            Question::new(
                "deadline",
                "author",
                Kind::Name,
                &author.to_string(),
                &[
                    format!("Who prepares the draft of the {work} for {project}?"),
                    format!("Who writes the {work} for {project}?"),
                ],
            )
            .told_by(format!("{author} will prepare")),
        ],
    }
}

fn trip(of: &mut Drawing<'_>) -> Fact {
    let cast = of.cast;
    let (traveller, office) = cast.pair(&mut of.draws);
    let city = *of.draws.pick(&[
        "Lisbon", "Oslo", "Vienna", "Dublin", "Athens", "Helsinki", "Madrid", "Prague", "Warsaw", "Zurich", "Naples", "Tallinn",
    ]);
    let hotel = *of.draws.pick(&[
        "Harbour View",
        "Old Mill",
        "Station Plaza",
        "Garden Court",
        "Blue Lantern",
        "Riverside",
        "Three Keys",
        "Northern Star",
    ]);
    let flight = |of: &mut Drawing<'_>| format!("{} {}", of.draws.pick(&["KX", "QV", "ZT", "JW"]), of.draws.between(100, 9899));
    let first = of.opening();
    let (day, mut number) = (of.day_after(first.day(), 12, 35), flight(of));
    let (is_open, has_changed) = (of.draws.chance(0.15), of.draws.chance(0.35));
    let mut thread = Thread::new(format!("Trip to {city}: {traveller}"));
    let bed = if is_open { "The hotel is still open.".to_owned() } else { format!("The hotel is the {hotel}.") };
    let text = format!(
        "Hi {},\n\nthe trip of {traveller} to {city} is booked: flight {number} on {}, departure at {:02}:{:02}. {bed} The ticket \
         is attached.\n\n{}\n{}",
        cast.owner.first,
        day.long(),
        of.draws.between(6, 19),
        of.draws.between(0, 11) * 5,
        office.first,
        office.role
    );
    thread.say(first, office.address(), cast.owner.address(), &text).attach(format!("ticket-{}.pdf", slug(city)));
    let mut last = of.after(first);
    thread.say(last, cast.owner.address(), office.address(), &format!("{}\n\n{}", of.thanks(), cast.owner.first));
    if has_changed {
        (last, number) = (of.after(last), flight(of));
        let text = format!(
            "Hi {},\n\nthe airline cancelled the flight to {city}. {} now takes flight {number} on the same day; the rest \
             stays.\n\n{}",
            cast.owner.first, traveller.first, office.first
        );
        thread.say(last, office.address(), cast.owner.address(), &text);
    }
    let asked = [
        format!("In which hotel does {traveller} stay in {city}?"),
        format!("What is {traveller}'s hotel for the trip to {city}?"),
    ];
    let bed = if is_open {
        Question::unanswerable("hotel", &asked)
    } else {
        Question::new("trip", "hotel", Kind::Text, hotel, &asked).told_by(format!("The hotel is the {hotel}"))
    };
    Fact {
        key: format!("trip-{}-{}", slug(&traveller.to_string()), slug(city)),
        keywords: vec!["trip".into(), city.into(), traveller.to_string()],
        thread,
        questions: vec![
            Question::new(
                "trip",
                "flight",
                Kind::Text,
                &number,
                &[
                    format!("Which flight does {traveller} take to {city}?"),
                    format!("What is the flight number of {traveller}'s trip to {city}?"),
                ],
            )
            .told_by(format!("flight {number} on"))
            .changed(has_changed),
            bed,
        ],
    }
}

fn handover(of: &mut Drawing<'_>) -> Fact {
    let (cast, project) = (of.cast, of.project());
    let (lead, before) = cast.pair(&mut of.draws);
    let rest: Vec<_> = cast.colleagues.iter().filter(|person| *person != lead && *person != before).collect();
    let role =
        *of.draws.pick(&["release manager", "test lead", "budget owner", "customer contact", "security officer", "scrum master"]);
    let (first, has_changed) = (of.opening(), of.draws.chance(0.3));
    let day = of.day_after(first.day(), 12, 40);
    let mut next = *of.draws.pick(&rest);
    let mut thread = Thread::new(format!("{project}: new {role}"));
    let text = format!(
        "Hi all,\n\n{before} leaves the team. {next} takes over as {role} of {project} on {}. Please copy both on your mails until \
         then.\n\n{}\n{}",
        day.long(),
        lead.first,
        lead.role
    );
    thread.say(first, lead.address(), cast.owner.address(), &text);
    let mut last = of.after(first);
    let text = format!(
        "Thanks to everybody for the good time. The folder with all documents is in the usual place.\n\n{}",
        before.first
    );
    thread.say(last, before.address(), lead.address(), &text);
    if has_changed {
        last = of.after(last);
        let gone = next;
        let others: Vec<_> = rest.into_iter().filter(|person| *person != gone).collect();
        next = *of.draws.pick(&others);
        let text = format!(
            "Hi all,\n\na correction: {} is needed elsewhere, so {next} takes over as {role} instead. The date stays.\n\n{}",
            gone.first, lead.first
        );
        thread.say(last, lead.address(), cast.owner.address(), &text);
    }
    let day = day.long();
    Fact {
        key: format!("handover-{}-{}", slug(project), slug(role)),
        keywords: vec![project.into(), "new".into(), role.into()],
        thread,
        questions: vec![
            Question::new(
                "handover",
                "who",
                Kind::Name,
                &next.to_string(),
                &[format!("Who is the new {role} of {project}?"), format!("Who takes over as {role} in project {project}?")],
            )
            .told_by(format!("{next} takes over"))
            .changed(has_changed),
            Question::new(
                "handover",
                "when",
                Kind::Date,
                &day,
                &[
                    format!("On which date does the new {role} of {project} take over?"),
                    format!("When does {project} get its new {role}?"),
                ],
            ),
        ],
    }
}

fn document(of: &mut Drawing<'_>) -> Fact {
    let (cast, project) = (of.cast, of.project());
    let (author, reader) = cast.pair(&mut of.draws);
    let (name, ending) = *of.draws.pick(&[
        ("cost plan", "xlsx"),
        ("floor plan", "pdf"),
        ("price list", "xlsx"),
        ("style guide", "pdf"),
        ("contract draft", "docx"),
        ("survey results", "csv"),
        ("press release", "docx"),
        ("network diagram", "pdf"),
        ("load test log", "txt"),
    ]);
    let (first, has_changed) = (of.opening(), of.draws.chance(0.45));
    let mut version = of.draws.between(1, 7);
    let file = |version: i64| format!("{}-{}_v{version}.{ending}", slug(project), slug(name));
    let mut thread = Thread::new(format!("{name} for {project}"));
    let text = format!(
        "Hi {},\n\nhere is the {name} for {project}: {}. Comments are welcome until the end of the week.\n\n{}\n{}",
        cast.owner.first,
        file(version),
        author.first,
        author.role
    );
    thread.say(first, author.address(), cast.owner.address(), &text).attach(file(version));
    let mut last = of.after(first);
    let text = format!("I found two small mistakes on the second page, otherwise it looks good to me.\n\n{}", reader.first);
    thread.say(last, reader.address(), author.address(), &text);
    if has_changed {
        (last, version) = (of.after(last), version + of.draws.between(1, 3));
        let text =
            format!("Corrected, thank you. Please use {} from now on and delete the old one.\n\n{}", file(version), author.first);
        thread.say(last, author.address(), cast.owner.address(), &text).attach(file(version));
    }
    Fact {
        key: format!("document-{}-{}", slug(project), slug(name)),
        keywords: vec![project.into(), name.into()],
        thread,
        questions: vec![
            Question::new(
                "document",
                "file",
                Kind::Text,
                &file(version),
                &[
                    format!("What is the file name of the current {name} for {project}?"),
                    format!("Which attachment holds the valid version of the {name} for {project}?"),
                ],
            )
            .changed(has_changed),
            Question::new(
                "document",
                "author",
                Kind::Name,
                &author.to_string(),
                &[format!("Who sent the {name} for {project}?"), format!("From whom did we get the {name} for {project}?")],
            )
            .told_by(format!("here is the {name}")),
        ],
    }
}

fn order(of: &mut Drawing<'_>) -> Fact {
    let (cast, project) = (of.cast, of.project());
    let vendor = of.draws.pick(&cast.vendors);
    let buyer = cast.colleague(&mut of.draws);
    let item = *of.draws.pick(&["laptops", "monitors", "desks", "headsets", "badges", "licences", "chairs", "sensors", "cables"]);
    let (first, has_changed) = (of.opening(), of.draws.chance(0.4));
    let (mut count, arrival) = (of.draws.between(3, 90), of.day_after(first.day(), 10, 45));
    let mut thread = Thread::new(format!("Order of {item} for {project} from {}", vendor.name));
    let text = format!(
        "Hi {},\n\nI ordered {count} {item} for {project} from {}. They arrive on {} and cost {} each.\n\n{}\n{}",
        cast.owner.first,
        vendor.name,
        arrival.long(),
        euros(of.draws.between(100, 9000) * 5),
        buyer.first,
        buyer.role
    );
    thread.say(first, buyer.address(), cast.owner.address(), &text).attach(format!("order-{}.pdf", slug(item)));
    let mut last = of.after(first);
    if has_changed {
        let text =
            format!("Hi {},\n\nwe are more people than planned. Can you raise the order?\n\n{}", buyer.first, cast.owner.first);
        thread.say(last, cast.owner.address(), buyer.address(), &text);
        (last, count) = (of.after(last), count + of.draws.between(2, 20));
        let text = format!("Done: it is now {count} {item} in all. Price and delivery stay.\n\n{}", buyer.first);
        thread.say(last, buyer.address(), cast.owner.address(), &text);
    } else {
        thread.say(last, cast.owner.address(), buyer.address(), &format!("{}\n\n{}", of.thanks(), cast.owner.first));
    }
    let (vendor, arrival) = (vendor.name, arrival.long());
    Fact {
        key: format!("order-{}-{item}-{}", slug(project), slug(vendor)),
        keywords: vec!["order".into(), item.into(), project.into(), vendor.into()],
        thread,
        questions: vec![
            Question::new(
                "order",
                "count",
                Kind::Number,
                &format!("{count} {item}"),
                &[
                    format!("How many {item} were ordered from {vendor} for {project}?"),
                    format!("What is the number of {item} in the order for {project} from {vendor}?"),
                ],
            )
            .changed(has_changed),
            Question::new(
                "order",
                "arrival",
                Kind::Date,
                &arrival,
                &[
                    format!("On which date do the {item} for {project} from {vendor} arrive?"),
                    format!("When does {vendor} deliver the {item} for {project}?"),
                ],
            ),
        ],
    }
}

/// An invoice that never came.
pub(super) fn missing_invoice(of: &mut Drawing<'_>) -> Fact {
    let vendor = of.draws.pick(&of.cast.vendors).name;
    let number = of.draws.between(1000, 9999);
    Fact {
        key: format!("invoice-{number}"),
        keywords: vec!["invoice".into(), number.to_string(), vendor.into()],
        thread: Thread::new(""),
        questions: vec![Question::unanswerable(
            "total",
            &[
                format!("What was the total of invoice {number} from {vendor}?"),
                format!("How much do we owe {vendor} for invoice {number} in all?"),
            ],
        )],
    }
}
