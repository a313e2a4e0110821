"""Programs of the grid language on their tasks in CPython, for the ratio that `hone bench arc` prints.

Every `solve_<task id>(I)` of the file is run on all pairs of its task, once. Prints one line of JSON; the time is that of
this process on a core.

    python3 verify.py programs.py tasks.jsonl FOLDER-OF-THE-LANGUAGE
"""

import importlib.util
import json
import sys
import time


def frozen(rows):
    """A grid as the language has it."""
    return tuple(map(tuple, rows))


def main():
    programs, tasks, folder = sys.argv[1:4]
    sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location("programs", programs)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    work = []
    with open(tasks, encoding="utf-8") as lines:
        for line in filter(str.strip, lines):
            task = json.loads(line)
            pairs = [(frozen(pair["input"]), frozen(pair["output"])) for pair in task["train"] + task["test"]]
            solver = getattr(module, "solve_" + task["id"], None)
            if solver:
                work.append((solver, pairs))
    solved = grids = 0
    start = time.process_time()
    for solver, pairs in work:
        right = 0
        for given, wanted in pairs:
            grids += 1
            try:
                right += solver(given) == wanted
            except Exception:
                pass
        solved += right == len(pairs)
    seconds = max(time.process_time() - start, 1e-9)
    print(json.dumps({"grids_per_s": grids / seconds, "grids": grids, "solved": solved}))


main()
