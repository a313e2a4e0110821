"""The service desk in plain Python: the rules of hone's `desk` world, for the ratio that `hone bench env` prints.

A step is what it is there: read the tool call, perhaps let it fail, run the tool, say what it gave, check an answer. The player
knows the right calls, as hone's gold player does. Prints one line of JSON.

    python3 bench/python/env_desk.py --seconds 3 --seed 1
"""

import argparse
import json
import random
import re
import time
from datetime import date, timedelta
from fractions import Fraction

METRES = {"m": Fraction(1), "km": Fraction(1000), "cm": Fraction(1, 100), "mm": Fraction(1, 1000)}
CATEGORIES = ("books", "shoes", "lamps", "phones", "bags")
TOPICS = ("return", "refund", "warranty")
STATUSES = ("packed", "shipped", "delivered", "cancelled")
WORDS = "lamp stone river table green paper window garden silver bridge".split()
FAULTS = ("timeout", "rate limit", "stale")
FAULT_RATE = 0.05
ANSWERS_MAX = 4
TOOLS = [
    {"name": "calculator", "parameters": {"type": "object", "properties": {"expression": {"type": "string"}}}},
    {"name": "convert", "parameters": {"type": "object", "properties": {"amount": {"type": "string"}, "from": {"type": "string"}, "to": {"type": "string"}}}},
    {"name": "date", "parameters": {"type": "object", "properties": {"date": {"type": "string"}, "days": {"type": "integer"}}}},
    {"name": "lookup", "parameters": {"type": "object", "properties": {"order": {"type": "string"}, "field": {"type": "string"}}}},
    {"name": "policy", "parameters": {"type": "object", "properties": {"category": {"type": "string"}, "topic": {"type": "string"}}}},
    {"name": "text", "parameters": {"type": "object", "properties": {"operation": {"type": "string"}, "text": {"type": "string"}}}},
]


def decimal(number):
    """An exact decimal without trailing zeros."""
    if number.denominator == 1:
        return str(number.numerator)
    return f"{float(number):.6f}".rstrip("0").rstrip(".")


def calculate(expression):
    """Numbers with + - * / in the usual order."""
    parts = re.findall(r"\d+(?:\.\d+)?|[-+*/]", expression)
    terms, signs = [Fraction(parts[0])], []
    for sign, number in zip(parts[1::2], parts[2::2]):
        if sign == "*":
            terms[-1] *= Fraction(number)
        elif sign == "/":
            terms[-1] /= Fraction(number)
        else:
            terms.append(Fraction(number))
            signs.append(sign)
    total = terms[0]
    for sign, term in zip(signs, terms[1:]):
        total = total + term if sign == "+" else total - term
    return decimal(total)


class Episode:
    """One ticket at the desk."""

    def __init__(self, ticket, draws):
        self.ticket, self.draws = ticket, draws
        self.n_answers, self.has_failed = 0, False

    def reset(self):
        system = "You work at a service desk. Use the tools where you need them, then answer."
        return [{"role": "system", "content": system}, {"role": "user", "content": self.ticket["question"]}], list(TOOLS)

    def step(self, action):
        self.n_answers += 1
        is_last = self.n_answers >= ANSWERS_MAX
        if not action.get("tool_calls"):
            text = action["content"].rsplit("answer:", 1)[-1]
            is_right = text.strip().lower().rstrip(".").replace(",", "") == self.ticket["truth"].lower()
            return [], {"format": 1.0, "correct": float(is_right)}, True
        messages, all_ok = [], True
        for request in action["tool_calls"]:
            try:
                arguments = json.loads(request["arguments"])
            except ValueError:
                messages.append({"role": "tool", "content": "the arguments are not JSON"})
                all_ok = False
                continue
            if not self.has_failed and self.draws.random() < FAULT_RATE:
                self.has_failed, all_ok = True, False
                messages.append({"role": "tool", "content": f"error: {self.draws.choice(FAULTS)}"})
                continue
            result = self.run(request["name"], arguments)
            messages.append({"role": "tool", "tool_call_id": request["id"], "name": request["name"], "content": result})
        signals = {"format": 1.0, "tool_ok": float(all_ok)}
        if is_last:
            signals["correct"] = 0.0
        return messages, signals, is_last

    def run(self, name, arguments):
        if name == "calculator":
            return calculate(arguments["expression"])
        if name == "convert":
            metres = Fraction(arguments["amount"]) * METRES[arguments["from"]]
            return decimal(metres / METRES[arguments["to"]])
        if name == "date":
            return (date.fromisoformat(arguments["date"]) + timedelta(days=arguments["days"])).isoformat()
        if name == "lookup":
            order = self.ticket["orders"].get(arguments["order"])
            return json.dumps(order) if order else "there is no such order"
        if name == "policy":
            return f"{self.ticket['policies'][arguments['category']][arguments['topic']]} days"
        if name == "text":
            return arguments["text"][::-1] if arguments["operation"] == "reverse" else str(len(arguments["text"]))
        return f"there is no tool {name}"


def ticket(draws):
    """A ticket with the calls that solve it."""
    orders = {
        str(number): {"status": draws.choice(STATUSES), "category": draws.choice(CATEGORIES), "total": draws.randint(5, 500)}
        for number in draws.sample(range(1000, 10000), 6)
    }
    policies = {category: {topic: draws.choice((14, 30, 60, 90)) for topic in TOPICS} for category in CATEGORIES}
    made = {"orders": orders, "policies": policies}
    kind = draws.randrange(6)
    number, order = draws.choice(list(orders.items()))
    if kind == 0:
        a, b = draws.randint(100, 999), draws.randint(11, 99)
        made |= {"question": f"What is {a} times {b}?", "truth": str(a * b)}
        made["calls"] = [("calculator", {"expression": f"{a} * {b}"})]
    elif kind == 1:
        a = draws.randint(2, 90)
        made |= {"question": f"How many m are {a} km?", "truth": str(a * 1000)}
        made["calls"] = [("convert", {"amount": str(a), "from": "km", "to": "m"})]
    elif kind == 2:
        start, days = date(2024, 1, 1) + timedelta(days=draws.randrange(600)), draws.randint(20, 200)
        made |= {"question": f"Which date is {days} days after {start}?", "truth": (start + timedelta(days=days)).isoformat()}
        made["calls"] = [("date", {"date": start.isoformat(), "days": days})]
    elif kind == 3:
        made |= {"question": f"What is the status of order {number}?", "truth": order["status"]}
        made["calls"] = [("lookup", {"order": number, "field": "status"})]
    elif kind == 4:
        word = draws.choice(WORDS)
        made |= {"question": f"Spell {word} backwards.", "truth": word[::-1]}
        made["calls"] = [("text", {"operation": "reverse", "text": word})]
    else:
        topic = draws.choice(TOPICS)
        made |= {"question": f"How many days of {topic} has order {number}?", "truth": str(policies[order["category"]][topic])}
        made["calls"] = [("lookup", {"order": number}), ("policy", {"category": order["category"], "topic": topic})]
    return made


def play(made, draws):
    """The number of steps of an episode; a call that failed is made again."""
    episode = Episode(made, draws)
    episode.reset()
    n_steps = 0
    for name, arguments in made["calls"]:
        action = {"role": "assistant", "tool_calls": [{"id": "call_0", "name": name, "arguments": json.dumps(arguments)}]}
        while True:
            _, signals, _ = episode.step(action)
            n_steps += 1
            if signals["tool_ok"]:
                break
    _, signals, _ = episode.step({"role": "assistant", "content": f"answer: {made['truth']}"})
    assert signals["correct"] == 1.0, made["question"]
    return n_steps + 1


def main():
    parser = argparse.ArgumentParser(description="Steps per second of the desk world in plain Python")
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    draws = random.Random(arguments.seed)
    tickets = [ticket(draws) for _ in range(200)]
    n_steps, started = 0, time.perf_counter()
    while (seconds := time.perf_counter() - started) < arguments.seconds:
        n_steps += play(draws.choice(tickets), draws)
    print(json.dumps({"steps": n_steps, "seconds": round(seconds, 3), "steps_per_s": round(n_steps / seconds, 1)}))


if __name__ == "__main__":
    main()
