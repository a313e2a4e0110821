//! Mails that tell nothing anybody asks for: notices, small talk, news of projects and vendors.
//!
//! They share the words of the facts (projects, vendors, people, numbers) without ever giving a room, a date or a total.

use super::fact::Drawing;
use super::mail::Thread;

/// One thread of one to three mails.
pub(super) fn chatter(of: &mut Drawing<'_>) -> Thread {
    let (cast, project) = (of.cast, of.project());
    let (writer, other) = cast.pair(&mut of.draws);
    let vendor = of.draws.pick(&cast.vendors).name;
    let number = of.draws.between(2, 60);
    let (subject, text) = match of.draws.below(14) {
        0 => (
            "Lunch tomorrow?",
            format!("A few of us try the new place at the corner. Shall I book a table for {}?", number % 7 + 3),
        ),
        1 => (
            "Maintenance of the mail server",
            format!("On the coming weekend the mail server is updated. Expect an interruption of about {number} minutes."),
        ),
        2 => (
            "Status of the week",
            format!(
                "{project}: {number} tickets closed, two still open. The work with {vendor} goes well, and the customer is content \
                 with the last demo. Next week we clean up the backlog."
            ),
        ),
        3 => ("Parking garage", format!("From Monday on, level {} of the garage is closed for painting.", number % 4 + 1)),
        4 => (
            "Cake in the kitchen",
            format!("It is my birthday: there is cake in the kitchen for {number} people. First come, first served!"),
        ),
        5 => (
            "Newsletter",
            format!(
                "This month: how {project} won its first customer, an interview with {other}, a look back at the summer party with \
                 {number} pictures, and a quiz about our partner {vendor}."
            ),
        ),
        6 => (
            "Feedback on the partner",
            format!(
                "I filled in the form about {vendor} and gave them {} out of ten. Support was quick, prices are fair.",
                number % 6 + 4
            ),
        ),
        7 => (
            "Printer on the second floor",
            format!("The printer is out of toner again. {number} jobs are waiting. Who has the spare one?"),
        ),
        8 => (
            "Idea for a talk",
            format!(
                "I would like to give a short talk about what we learned in {project}. About {number} slides, nothing fancy."
            ),
        ),
        9 => (
            "Expense report",
            format!("Your expense report was checked by {other}. {number} receipts were accepted, nothing is missing."),
        ),
        10 => (
            "Question about the repository",
            format!(
                "In the repository of {project} the build is red since this morning. {number} tests fail on my machine as well. Did \
                 somebody update the compiler?"
            ),
        ),
        11 => (
            "Volunteers for the fair",
            format!("We still need helpers for our stand at the fair. {vendor} has a stand opposite of ours."),
        ),
        12 => ("Lost umbrella", format!("I left a blue umbrella near desk {number}. Please leave it at the reception.")),
        _ => (
            "Reading list",
            format!(
                "Attached is the article I mentioned. The part about planning, from page {number} on, fits {project} very well."
            ),
        ),
    };
    let first = of.opening();
    let mut thread = Thread::new(subject);
    let greeting = of.draws.pick(&["Hi all,", "Hello everybody,", "Dear colleagues,", "Hi,"]);
    let text = format!("{greeting}\n\n{text}\n\n{}\n{}", writer.first, writer.role);
    thread.say(first, writer.address(), cast.owner.address(), &text);
    if subject == "Reading list" {
        thread.attach(format!("article-{number}.pdf"));
    }
    let mut last = first;
    for reply_idx in 0..of.draws.below(3) {
        last = of.after(last);
        let (from, to) = if reply_idx == 0 { (other, writer) } else { (writer, other) };
        thread.say(last, from.address(), to.address(), &format!("{}\n\n{}", of.thanks(), from.first));
    }
    thread
}
