"""2048 in plain Python: the rules of hone's `2048` world, for the ratio that `hone bench env` prints.

A step is what it is there: read a move word, slide, spawn a tile, render the board as text, measure it. A move that changes
nothing ends the game, and the next one begins. Prints one line of JSON.

    python3 bench/python/env_2048.py --seconds 3 --seed 1
"""

import argparse
import json
import math
import random
import time

SIZE = 4
MOVES = ("left", "right", "up", "down")


def merge(row):
    """Slides a row to the left; two equal neighbours become one, once."""
    tiles = [tile for tile in row if tile]
    merged = []
    i = 0
    while i < len(tiles):
        if i + 1 < len(tiles) and tiles[i] == tiles[i + 1]:
            merged.append(2 * tiles[i])
            i += 2
        else:
            merged.append(tiles[i])
            i += 1
    return merged + [0] * (SIZE - len(merged))


def slide(board, move):
    """The board after a move, before a tile appears."""
    if move == "left":
        return [merge(row) for row in board]
    if move == "right":
        return [merge(row[::-1])[::-1] for row in board]
    columns = zip(*board)
    if move == "up":
        moved = [merge(column) for column in columns]
    else:
        moved = [merge(column[::-1])[::-1] for column in columns]
    return [list(row) for row in zip(*moved)]


def can_move(board):
    """Whether some move changes the board."""
    for row in board:
        if 0 in row:
            return True
    for line in (*board, *zip(*board)):
        if any(a == b for a, b in zip(line, line[1:])):
            return True
    return False


def render(board):
    """Four lines of four tiles, `.` for an empty cell."""
    return "\n".join(" ".join(str(tile) if tile else "." for tile in row) for row in board)


class Game:
    """One game, from two tiles to the end."""

    def __init__(self, rng, winning_tile=128):
        self.rng = rng
        self.winning_tile = winning_tile
        self.winning_log = math.log2(winning_tile)
        self.board = [[0] * SIZE for _ in range(SIZE)]
        self.spawn()
        self.spawn()

    def spawn(self):
        empty = [(y, x) for y, row in enumerate(self.board) for x, tile in enumerate(row) if not tile]
        y, x = self.rng.choice(empty)
        self.board[y][x] = 4 if self.rng.random() < 0.1 else 2

    def signals(self, is_read, is_valid):
        highest = max(max(row) for row in self.board)
        value = sum(sum(row) for row in self.board)
        return {
            "highest_tile": min(1.0, (math.log2(highest) - 1) / (self.winning_log - 1)),
            "board_value": min(1.0, (math.log2(value) - 1) / (self.winning_log + 3)),
            "room": sum(row.count(0) for row in self.board) / 16,
            "won": float(highest >= self.winning_tile),
            "format": float(is_read),
            "valid": float(is_valid),
        }

    def step(self, answer):
        """Takes an answer; gives the text of the board, what was measured, and whether the game is over."""
        move = answer.strip().lower()
        if move not in MOVES:
            return "", self.signals(False, False), True
        moved = slide(self.board, move)
        if moved == self.board:
            return "", self.signals(True, False), True
        self.board = moved
        self.spawn()
        signals = self.signals(True, True)
        is_over = signals["won"] == 1.0 or not can_move(self.board)
        return render(self.board), signals, is_over


def main():
    parser = argparse.ArgumentParser(description="random moves in 2048, as fast as plain Python plays them")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    rng = random.Random(args.seed)
    game = Game(rng)
    n_steps = 0
    start = time.perf_counter()
    elapsed = 0.0
    while elapsed < args.seconds:
        for _ in range(1000):
            _, _, is_over = game.step(rng.choice(MOVES))
            if is_over:
                game = Game(rng)
        n_steps += 1000
        elapsed = time.perf_counter() - start
    print(json.dumps({"steps": n_steps, "seconds": elapsed, "steps_per_s": n_steps / elapsed}))


if __name__ == "__main__":
    main()
