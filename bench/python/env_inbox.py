"""The inbox world in plain Python: mails in SQLite FTS5, and an agent that searches, reads and answers.

    env_inbox.py --seconds S --seed N

The peer of hone's world `inbox` in `hone bench env`: a mailbox of as many mails of like length, the same three tools with the
same checks of their arguments, and the same script (search, read, answer). Prints steps per second of one thread.
Standard library only.
"""

import argparse
import json
import random
import re
import sqlite3
import time

N_MAILS = 3000
RESULTS_MAX = 10
TURNS_MAX = 10
DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
WORD = re.compile(r"\w+")
UNKNOWN = {"idontknow", "idonotknow", "unknown"}

PEOPLE = ["Amara Beck", "Boris Dahl", "Carla Falk", "Daniel Haas", "Edith Kaya", "Felix Lange", "Greta Moser", "Hugo Novak"]
VENDORS = ["Bluefin Logistics", "Cobalt Print", "Fernhill Furniture", "Kestrel Security", "Oakridge Electronics"]
PROJECTS = ["Atlas", "Borealis", "Cascade", "Dynamo", "Eclipse", "Falcon", "Granite", "Horizon", "Indigo", "Keystone"]
FILLER = [
    "Please state the number of the invoice with your payment.",
    "The work goes well, and the customer is content with the last demo.",
    "Could you check this one against the order and release it?",
    "Please send me your points for the agenda two days before.",
    "Comments are welcome until the end of the week.",
    "The folder with all documents is in the usual place.",
    "I will let you all know as soon as there is news.",
    "Next week we clean up the backlog and plan the sprint.",
]

SEARCH = """
    SELECT mails.idx, mails.sent, mails.sender, mails.subject, snippet(words, 1, '', '', '…', 16)
    FROM words JOIN mails ON mails.idx = words.rowid
    WHERE words MATCH ? AND mails.sent >= ? AND mails.sent < ? AND instr(lower(mails.sender), ?) > 0
        AND instr(lower(mails.recipient), ?) > 0
    ORDER BY words.rowid DESC LIMIT ?
"""


def address(name):
    first, last = name.lower().split(" ", 1)
    return f"{name} <{first}.{last.replace(' ', '-')}@example.com>"


def mailbox(draws):
    """A database of mails, and the questions about their invoices."""
    database = sqlite3.connect(":memory:")
    database.executescript("""
        CREATE TABLE mails (idx INTEGER PRIMARY KEY, sent TEXT, sender TEXT, recipient TEXT, subject TEXT, body TEXT, attachments TEXT);
        CREATE VIRTUAL TABLE words USING fts5(
            subject, body, sender, attachments, content='mails', content_rowid='idx', tokenize='porter unicode61'
        );
    """)
    questions, mails = [], []
    numbers = draws.sample(range(1000, 9999), N_MAILS)
    for idx, number in enumerate(numbers):
        vendor, project, total = draws.choice(VENDORS), draws.choice(PROJECTS), draws.randint(100, 999_999)
        sent = f"2025-{draws.randint(1, 12):02}-{draws.randint(1, 28):02} {draws.randint(7, 18):02}:{draws.randint(0, 59):02}"
        amount = f"EUR {total // 100}.{total % 100:02}"
        body = (
            f"Dear {draws.choice(PEOPLE)},\n\nplease find attached invoice {number} for project {project}.\n\n"
            f"Total: {amount}\n\n{' '.join(draws.sample(FILLER, 4))}\n\nKind regards\n{draws.choice(PEOPLE)}\nAccounts, {vendor}"
        )
        subject = f"Invoice {number} from {vendor} for project {project}"
        sender, recipient = address(draws.choice(PEOPLE)), address(draws.choice(PEOPLE))
        mails.append((idx, sent, sender, recipient, subject, body, f"invoice-{number}.pdf"))
        questions.append({
            "question": f"What was the total of invoice {number} from {vendor}?",
            "answer": amount,
            "keywords": ["invoice", str(number), vendor],
            "source": f"m{idx:05}",
        })
    database.executemany("INSERT INTO mails VALUES (?, ?, ?, ?, ?, ?, ?)", mails)
    database.execute("INSERT INTO words (words) VALUES ('rebuild')")
    database.execute("INSERT INTO words (words) VALUES ('optimize')")
    database.commit()
    return database, questions


def tool_result(call, value):
    return {"role": "tool", "tool_call_id": call["id"], "name": call["name"], "content": value}


class Episode:
    """One question."""

    def __init__(self, database, question):
        self.database, self.question = database, question
        self.n_turns, self.is_found, self.is_well_formed = 0, False, True

    def reset(self):
        return [{"role": "system", "content": "Answer questions about the mailbox."}, {"role": "user", "content": self.question["question"]}]

    def step(self, action):
        """Takes an action: messages, signals, and how it ended."""
        self.n_turns += 1
        messages, verdict, sources = [], None, []
        for call in action["tool_calls"]:
            try:
                arguments = json.loads(call["arguments"])
                if call["name"] == "search_inbox":
                    messages.append(tool_result(call, json.dumps(self.search(**arguments))))
                elif call["name"] == "read_email":
                    messages.append(tool_result(call, json.dumps(self.read(**arguments))))
                elif call["name"] == "return_answer":
                    verdict, sources = self.verdict(arguments["answer"]), arguments["sources"]
                else:
                    raise ValueError(f"there is no tool {call['name']}")
            except (ValueError, TypeError, KeyError) as error:
                self.is_well_formed = False
                messages.append(tool_result(call, f"error: {error}"))
        signals = {
            "correct": float(verdict == "correct"),
            "unknown": float(verdict == "unknown"),
            "wrong": float(verdict == "wrong"),
            "sources_right": float(bool(sources) and all(source == self.question["source"] for source in sources)),
            "found": float(self.is_found),
            "format": float(self.is_well_formed),
        }
        return messages, signals, verdict is not None or self.n_turns >= TURNS_MAX

    def search(self, keywords, sent_after="", sent_before="", max_results=RESULTS_MAX, **others):
        if not isinstance(keywords, list) or any(day and not DAY.fullmatch(day) for day in (sent_after, sent_before)):
            raise ValueError("wrong arguments of search_inbox")
        query = " ".join(f'"{word}"' for keyword in keywords for word in WORD.findall(keyword))
        sender, recipient = others.get("from", "").lower(), others.get("to", "").lower()
        values = (query, sent_after, f"{sent_before}x", sender, recipient, min(max_results, RESULTS_MAX))
        rows = self.database.execute(SEARCH, values)
        return [
            {"id": f"m{idx:05}", "date": sent, "from": sender, "subject": subject, "snippet": snippet}
            for idx, sent, sender, subject, snippet in rows
        ]

    def read(self, message_id):
        row = self.database.execute(
            "SELECT sent, sender, recipient, subject, attachments, body FROM mails WHERE idx = ?", (int(message_id[1:]),)
        ).fetchone()
        if row is None:
            raise ValueError("there is no mail of this id")
        self.is_found |= message_id == self.question["source"]
        return {"id": message_id, **dict(zip(("date", "from", "to", "subject", "attachments", "body"), row))}

    def verdict(self, answer):
        if "".join(WORD.findall(answer.lower())) in UNKNOWN:
            return "unknown"
        numbers = re.findall(r"\d[\d.,]*", answer)
        truth = re.findall(r"\d[\d.,]*", self.question["answer"])
        return "correct" if [number.replace(",", "") for number in numbers] == truth else "wrong"


def call(name, arguments):
    return {"role": "assistant", "tool_calls": [{"id": "call_0", "name": name, "arguments": json.dumps(arguments)}]}


def play(database, question):
    """Plays one episode to its end; returns its steps."""
    episode = Episode(database, question)
    episode.reset()
    actions = [
        call("search_inbox", {"keywords": question["keywords"]}),
        call("read_email", {"message_id": question["source"]}),
        call("return_answer", {"answer": question["answer"], "sources": [question["source"]]}),
    ]
    for n_steps, action in enumerate(actions, 1):
        _, signals, is_done = episode.step(action)
        if is_done:
            assert signals["correct"] == 1.0 and signals["found"] == 1.0, question
            return n_steps
    raise AssertionError("the script ends with an answer")


def main():
    parser = argparse.ArgumentParser(description="Steps per second of the inbox world in plain Python")
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    draws = random.Random(arguments.seed)
    database, questions = mailbox(draws)
    n_steps, started = 0, time.perf_counter()
    while (seconds := time.perf_counter() - started) < arguments.seconds:
        n_steps += play(database, draws.choice(questions))
    print(json.dumps({"steps": n_steps, "seconds": round(seconds, 3), "steps_per_s": round(n_steps / seconds, 1)}))


if __name__ == "__main__":
    main()
