"""scikit-learn's digits as a bandit: export them for `hone bench bandit --digits FILE`, and what others reach on them.

    pip install scikit-learn vowpalwabbit
    python bandit.py export digits.csv
    python bandit.py compare --rounds 4000 --seeds 1 2 3

Each of ten classes is an arm, and only whether the chosen one was right becomes known. `compare` plays the same rounds with
several explorers of VowpalWabbit, each as it comes and tuned over a few learning rates by its own reward (which flatters it), and fits an
oracle in hindsight: the linear classifier that saw all labels. Prints JSON.
"""

import argparse
import json
import random

from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression, RidgeClassifier

EXPLORERS = {
    "epsilon_5": "--epsilon 0.05",
    "squarecb": "--squarecb",
    "cover_3": "--cover 3",
    "regcb": "--regcb",
}
RATES = [None, 0.1, 0.5, 2.0]


def export(path):
    digits = load_digits()
    with open(path, "w", encoding="utf-8") as file:
        file.write(",".join([f"pixel_{idx}" for idx in range(64)] + ["label"]) + "\n")
        for pixels, label in zip(digits.data, digits.target):
            file.write(",".join([f"{pixel:g}" for pixel in pixels] + [str(label)]) + "\n")


def order(n_rows, n_rounds, seed):
    """The rounds: all rows in a random order, then all again in another."""
    draw = random.Random(seed)
    while n_rounds > 0:
        rows = list(range(n_rows))
        draw.shuffle(rows)
        yield from rows[:n_rounds]
        n_rounds -= n_rows


def vowpal(options, rate, n_rounds, seed):
    from vowpalwabbit import Workspace

    digits = load_digits()
    learning = f" --learning_rate {rate}" if rate is not None else ""
    model = Workspace(f"--cb_explore 10 {options}{learning} --quiet --random_seed {seed}")
    draw = random.Random(seed + 1000)
    n_right = 0
    for row in order(len(digits.data), n_rounds, seed):
        features = " ".join(f"{idx}:{value / 16:g}" for idx, value in enumerate(digits.data[row]) if value)
        shares = model.predict(f"| {features}")
        chosen = draw.choices(range(10), weights=shares)[0]
        is_right = int(chosen == digits.target[row])
        n_right += is_right
        model.learn(f"{chosen + 1}:{-is_right}:{shares[chosen]} | {features}")
    model.finish()
    return n_right / n_rounds


def compare(n_rounds, seeds):
    digits = load_digits()
    x, y = digits.data / 16, digits.target
    found = {"rounds": n_rounds, "seeds": seeds, "vowpalwabbit": {}}
    for name, options in EXPLORERS.items():
        by_rate = {}
        for rate in RATES:
            rewards = [vowpal(options, rate, n_rounds, seed) for seed in seeds]
            by_rate["default" if rate is None else str(rate)] = round(sum(rewards) / len(rewards), 4)
        found["vowpalwabbit"][name] = {"default": by_rate["default"], "best": max(by_rate.values()), "by_rate": by_rate}
    found["hindsight"] = {
        "ridge": round(RidgeClassifier(alpha=1.0).fit(x, y).score(x, y), 4),
        "logistic": round(LogisticRegression(max_iter=2000).fit(x, y).score(x, y), 4),
    }
    print(json.dumps(found))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("export").add_argument("file")
    comparison = commands.add_parser("compare")
    comparison.add_argument("--rounds", type=int, default=4000)
    comparison.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    args = parser.parse_args()
    if args.command == "export":
        export(args.file)
    else:
        compare(args.rounds, args.seeds)


if __name__ == "__main__":
    main()
