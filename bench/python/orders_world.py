"""A world in which orders are written as JSON with named keys, for `bench/gpu`. Standard library only.

    python3 bench/python/orders_world.py --port 8701

`Order: 7 green cups. Keys: item, colour, count.` wants `{"item": "cups", "colour": "green", "count": 7}` and nothing else. Keys have
other names and another order from task to task. What is held out are pairs of a thing and a colour: no order for them is ever trained
on. The protocol and its server are those of `examples/external_env.py`.
"""

import argparse
import json
import random
import sys
import threading
from collections import OrderedDict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))
import external_env  # noqa: E402

THINGS = ["cups", "plates", "lamps", "chairs", "boxes", "pens", "books", "bags", "hats", "shoes", "towels", "candles", "bowls", "ropes",
          "tents", "wheels", "clocks", "mirrors", "brushes", "baskets", "bottles", "buttons", "coats", "desks"]
COLOURS = ["red", "green", "blue", "black", "white", "yellow", "brown", "grey", "pink", "orange"]
NAMES = {"thing": ["item", "product", "article"], "colour": ["colour", "color", "shade"], "count": ["count", "amount", "number"]}
# What every conversation begins with.
EXAMPLES = [{"thing": "rings", "colour": "gold", "count": 12, "keys": [["colour", "shade"], ["thing", "article"], ["count", "amount"]]},
            {"thing": "keys", "colour": "silver", "count": 40, "keys": [["thing", "item"], ["count", "number"], ["colour", "color"]]}]
INSTRUCTIONS = "You turn orders into JSON. Answer with one JSON object that has exactly the keys asked for, and nothing else."


def scenarios(split, seed, n):
    """The first n orders of a split. A longer list begins with the shorter one, because orders are drawn in a row."""
    draws, found, tries = random.Random(f"{seed} {split}"), OrderedDict(), 0
    while len(found) < n and tries < 100 * n + 1000:
        tries += 1
        thing, colour, count = draws.choice(THINGS), draws.choice(COLOURS), draws.randint(2, 99)
        keys = [[field, draws.choice(names)] for field, names in draws.sample(sorted(NAMES.items()), 3)]
        family, name = f"{colour} {thing}", f"{count} {colour} {thing} {' '.join(key for _, key in keys)}"
        if external_env.split_of(family) == split and name not in found:
            order = {"thing": thing, "colour": colour, "count": count, "keys": keys}
            found[name] = {"id": f"orders/{name}", "category": "orders", "input": order, "family": family}
    return list(found.values())


class Order:
    """One order, answered once."""

    def __init__(self, order):
        self.wanted = {key: order[field] for field, key in order["keys"]}
        self.text = f"Order: {order['count']} {order['colour']} {order['thing']}. Keys: {', '.join(self.wanted)}."

    def opening(self):
        shown = [message for order in EXAMPLES for message in Order(order).both()]
        return [{"role": "system", "content": INSTRUCTIONS}, *shown, {"role": "user", "content": self.text}]

    def both(self):
        return [{"role": "user", "content": self.text}, {"role": "assistant", "content": json.dumps(self.wanted)}]

    def step(self, action):
        try:
            found = json.loads(action.get("content") or "")
        except ValueError:
            found = None
        is_form = isinstance(found, dict) and set(found) == set(self.wanted)
        is_right = is_form and all(type(found[key]) is type(value) and found[key] == value for key, value in self.wanted.items())
        unread = {"type": "unparsable_action", "recovered": False, "message": "that is not a JSON object with the keys asked for"}
        return {"messages": [], "errors": [] if is_form else [unread], "signals": {"correct": int(is_right), "format": int(is_form)},
                "done": "success" if is_right else "failure"}


class Orders:
    """All orders, the oldest forgotten when there are too many."""

    def __init__(self):
        self.orders, self.n_begun, self.lock = OrderedDict(), 0, threading.Lock()

    def begin(self, scenario):
        order = Order(scenario["input"])
        with self.lock:
            self.n_begun += 1
            name = f"e{self.n_begun}"
            self.orders[name] = order
            if len(self.orders) > external_env.EPISODES_MAX:
                self.orders.popitem(last=False)
        return {"episode": name, "messages": order.opening(), "best": {"correct": 1, "format": 1}}

    def answer(self, path, body):
        if path == "/scenarios":
            return scenarios(body["split"], body["seed"], body["n"])
        if path == "/reset":
            return self.begin(body["scenario"])
        if path == "/step":
            return self.orders[body["episode"]].step(body["action"])
        if path == "/gold":
            return {"action": {"role": "assistant", "content": json.dumps(self.orders[body["episode"]].wanted)}}
        return None


class Handler(external_env.Handler):
    """The same server under another name."""

    def do_GET(self):
        self.reply(200, {"name": "orders", "protocol": 1}) if self.path == "/world" else self.reply(404, {"error": "only /world"})


def main():
    parser = argparse.ArgumentParser(description="Orders as JSON, as a world for hone")
    parser.add_argument("--port", type=int, default=8701)
    server = external_env.Server(("127.0.0.1", parser.parse_args().port))
    server.RequestHandlerClass, server.shop = Handler, Orders()
    print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
