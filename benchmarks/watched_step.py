"""Compares training steps that are watched with plain ones: stepscope, what users do today, and the floor.

Run: ``python benchmarks/watched_step.py``, or with ``--model transformer`` for the smallest of the full comparisons.
A plain and a watched copy of one model step in turn on the same data; docs/benchmarks.md says how to read the table.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from watched.cases import GROUPS, Case, cases
from watched.machine import machine
from watched.our_sides import OURS
from watched.processes import apart, forked
from watched.sides import THEIRS
from watched.table import TITLES, print_case, print_scaling, rows_of


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="What watching a training step costs.")
    parser.add_argument("--model", choices=GROUPS, default="all")
    parser.add_argument("--sides", help=f"of {','.join(TITLES)}; by default what suits the model")
    parser.add_argument("--steps", type=int, help="pairs for each side, however long they take")
    parser.add_argument("--threads", type=int, help="torch's threads; by default torch's own choice")
    parser.add_argument("--json", type=Path, help="a file for everything measured; by default it is the last line")
    parser.add_argument("--tiny", action="store_true", help="tiny models, to try the command")
    parser.add_argument("--forked", action="store_true", help="import torch once for all sides, to try the command")
    arguments = parser.parse_args()
    if arguments.sides and (unknown := set(arguments.sides.split(",")) - TITLES.keys()):
        parser.error(f"unknown sides {', '.join(sorted(unknown))}; expected some of {', '.join(TITLES)}")
    return arguments


def measure(name: str, case: Case, side: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Returns what a side's process measured, or under ``error`` why it did not."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.json"
        task = {
            "result": str(result),
            "case": name,
            "side": side,
            "pairs": arguments.steps or case.pairs,
            "seconds": 1e9 if arguments.steps else case.seconds,
            "threads": arguments.threads,
            "tiny": arguments.tiny,
        }
        error = (forked if arguments.forked else apart)(task, Path(folder))
        if error is not None:
            return {"error": error}
        found: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
        return found


def main() -> None:
    arguments = parse()
    facts = machine()
    print(", ".join(f"{name} {value}" for name, value in facts.items() if value is not None), flush=True)
    chosen = cases(tiny=arguments.tiny)
    measured: dict[str, Any] = {}
    for name in GROUPS[arguments.model]:
        case = chosen[name]
        found = {}
        for side in arguments.sides.split(",") if arguments.sides else case.sides or (*THEIRS, *OURS):
            print(f"{name}: {TITLES[side]} ...", file=sys.stderr, flush=True)
            found[side] = measure(name, case, side, arguments)
        measured[name] = rows_of(found)
        if name not in GROUPS["scaling"]:
            print_case(name, measured[name])
    if scaling := {name: rows for name, rows in measured.items() if name in GROUPS["scaling"]}:
        print_scaling(scaling)
    everything = json.dumps({"machine": facts, "cases": measured})
    if arguments.json:
        arguments.json.write_text(everything, encoding="utf-8")
    else:
        print(everything)


if __name__ == "__main__":
    main()
