"""A world of your own for hone, served over HTTP. Standard library only.

    python3 examples/external_env.py --port 8700

The world is a little shop: a customer asks what a basket costs, the agent looks up prices with the tool `price` and answers
with a number. It speaks hone's protocol 1 (see the guide of the world `external`): GET /world, POST /scenarios, /reset, /step
and /gold. With `--port 0` it takes a free port. The first line it prints is its address.

Two promises are worth copying into a world of yours. Everything is fixed by the scenario, the seed and the actions: randomness
comes from a generator that is seeded with them. And a step is known by its episode and `step_idx`: when the same one comes
twice, because an answer was lost on the way, it is answered as before and not done again.
"""

import argparse
import hashlib
import json
import random
import re
import threading
from collections import OrderedDict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ITEMS = ["apple", "bread", "cheese", "egg", "honey", "lemon", "melon", "onion", "pear", "rice", "soap", "tea"]
STEPS_MAX = 8
EPISODES_MAX = 10_000
BODY_BYTES_MAX = 1 << 20

PRICE_TOOL = {
    "name": "price",
    "description": "Tells what one piece of an item costs, in cents",
    "parameters": {
        "type": "object",
        "properties": {"item": {"type": "string", "enum": ITEMS}},
        "required": ["item"],
    },
}
INSTRUCTIONS = "You work in a shop. Look up prices with the tool `price`, then answer with the sum in cents: a number alone."


def number_of(*facts):
    """A number that these facts fix, the same on every machine."""
    return int.from_bytes(hashlib.sha256(repr(facts).encode()).digest()[:8], "big")


def split_of(family):
    """The side that a basket is on, whatever the seed: 80 % train, 10 % validation, 10 % test."""
    place = number_of("split", family) % 10
    return {0: "validation", 1: "test"}.get(place, "train")


def scenarios(split, seed, n):
    """The first n baskets of a split. A longer list begins with the shorter one, because baskets are drawn in a row."""
    draws, found, tries = random.Random(f"{seed} {split}"), OrderedDict(), 0
    while len(found) < n and tries < 100 * n + 1000:
        tries += 1
        items = sorted(draws.sample(ITEMS, draws.randint(1, 4)))
        basket = {item: draws.randint(1, 9) for item in items}
        family = " ".join(f"{count} {item}" for item, count in basket.items())
        if split_of(family) == split and family not in found:
            found[family] = {
                "id": f"shop/{family}",
                "category": "one item" if len(basket) == 1 else "several items",
                "input": {"basket": basket},
                "difficulty": len(basket) / 4,
                "family": family,
            }
    return list(found.values())


class Episode:
    """One customer."""

    def __init__(self, scenario, seed):
        self.basket = scenario["input"]["basket"]
        self.prices = {item: 5 + number_of("price", seed, scenario["id"], item) % 495 for item in ITEMS}
        self.seen, self.n_steps, self.last = [], 0, None
        self.lock = threading.Lock()

    def opening(self):
        wish = " and ".join(f"{count} {item}" for item, count in self.basket.items())
        return [
            {"role": "system", "content": INSTRUCTIONS},
            {"role": "user", "content": f"How much is {wish}?"},
        ]

    def step(self, action, step_idx):
        """Takes an action; the same step again gets the same answer."""
        with self.lock:
            if step_idx == self.n_steps - 1:
                return self.last
            if step_idx != self.n_steps:
                raise ValueError(f"step_idx {step_idx} does not follow {self.n_steps - 1}")
            self.n_steps += 1
            self.last = self.act(action)
            return self.last

    def act(self, action):
        step = {"messages": [], "tool_calls": [], "errors": [], "signals": {"correct": 0, "well_formed": 1}, "done": None}
        for request in action.get("tool_calls", []):
            self.call(request, step)
        words = action.get("content") or ""
        if not action.get("tool_calls"):
            number = re.fullmatch(r"\s*(\d{1,9})\s*(?:cents)?\.?\s*", words)
            if number:
                is_right = int(number[1]) == self.total()
                step["signals"]["correct"] = int(is_right)
                step["done"] = "success" if is_right else "failure"
            else:
                self.complain(step, "an answer is a number alone")
                step["messages"].append({"role": "user", "content": "Please tell me the sum as a number."})
        if step["done"] is None and self.n_steps >= STEPS_MAX:
            step["done"] = "failure"
        return step

    def call(self, request, step):
        try:
            arguments = json.loads(request["arguments"] or "{}")
            item = arguments["item"]
            text = str(self.prices[item])
            self.seen.append(item)
        except (ValueError, KeyError, TypeError):
            arguments, text = None, None
            self.complain(step, f"there is no price for {request['arguments'][:80]}")
        name, call_id = request["name"], request.get("id", "")
        step["messages"].append({"role": "tool", "tool_call_id": call_id, "name": name, "content": text or "error: no such item"})
        step["tool_calls"].append(
            {"id": call_id, "name": name, "arguments": arguments, "success": text is not None, "duration_ms": 3.0}
        )

    @staticmethod
    def complain(step, message):
        step["signals"]["well_formed"] = 0
        step["errors"].append({"type": "unparsable_action", "recovered": True, "message": message})

    def total(self):
        return sum(count * self.prices[item] for item, count in self.basket.items())

    def gold(self):
        """The best next action: look up what was not looked up yet, then answer."""
        with self.lock:
            unseen = [item for item in self.basket if item not in self.seen]
            if not unseen:
                return {"action": {"role": "assistant", "content": str(self.total())}}
            requests = [
                {"id": f"call_{idx}", "name": "price", "arguments": json.dumps({"item": item})} for idx, item in enumerate(unseen)
            ]
            return {"action": {"role": "assistant", "tool_calls": requests}}


class Shop:
    """All episodes, the oldest forgotten when there are too many."""

    def __init__(self):
        self.episodes, self.n_begun, self.lock = OrderedDict(), 0, threading.Lock()

    def begin(self, scenario, seed):
        episode = Episode(scenario, seed)
        with self.lock:
            self.n_begun += 1
            name = f"e{self.n_begun}"
            self.episodes[name] = episode
            if len(self.episodes) > EPISODES_MAX:
                self.episodes.popitem(last=False)
        best = {"correct": 1, "well_formed": 1}
        return {"episode": name, "tools": [PRICE_TOOL], "messages": episode.opening(), "best": best}

    def answer(self, path, body):
        if path == "/scenarios":
            return scenarios(body["split"], body["seed"], body["n"])
        if path == "/reset":
            return self.begin(body["scenario"], body["seed"])
        if path == "/step":
            return self.episodes[body["episode"]].step(body["action"], body["step_idx"])
        if path == "/gold":
            return self.episodes[body["episode"]].gold()
        return None


class Handler(BaseHTTPRequestHandler):
    """JSON in, JSON out."""

    protocol_version = "HTTP/1.1"
    # An answer leaves in one piece, and at once.
    wbufsize = 1 << 16
    disable_nagle_algorithm = True

    def do_GET(self):
        if self.path == "/world":
            self.reply(200, {"name": "shop", "protocol": 1})
        else:
            self.reply(404, {"error": f"there is no {self.path}"})

    def do_POST(self):
        try:
            n_bytes = int(self.headers.get("content-length", 0))
            if not 0 <= n_bytes <= BODY_BYTES_MAX:
                self.close_connection = True
                return self.reply(413, {"error": f"at most {BODY_BYTES_MAX} bytes"})
            answer = self.server.shop.answer(self.path, json.loads(self.rfile.read(n_bytes)))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            return self.reply(400, {"error": f"{type(error).__name__}: {error}"})
        if answer is None:
            return self.reply(404, {"error": f"there is no {self.path}"})
        self.reply(200, answer)

    def reply(self, status, value):
        body = json.dumps(value, allow_nan=False).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Says nothing about each request."""


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address):
        super().__init__(address, Handler)
        self.shop = Shop()


def main():
    parser = argparse.ArgumentParser(description="A little shop as a world for hone")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8700)
    arguments = parser.parse_args()
    server = Server((arguments.host, arguments.port))
    print(f"http://{arguments.host}:{server.server_address[1]}", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
