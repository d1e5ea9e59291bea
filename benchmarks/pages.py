"""Saves and reads pages, beside what users do today: ``joblib.dump`` of the tensors, and ``joblib.load`` of every page.

Run: ``python benchmarks/pages.py``; it takes up to 5 GB in the folder for temporary files. Each side runs in processes
of its own, so that none warms up memory for another, and the sides take turns: absolute times drift between machines
and minutes. Both sides wait until their files are on the disk. A page is hashed in a second thread: that time shows
where no core is idle.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from paged.sides import Measures, make_epoch
from watched.machine import machine

SIZES_MB = (1, 10)
"""Sizes of the tensors that a page is filled with."""
WRITE_GOAL, READ_GOAL_MS, READ_GOAL_MB, PEAK_GOAL_PAGES = 1.3, 50, 40, 3
TIMEOUT_S = 600.0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--turns", type=int, default=5, help="processes a side")
    parser.add_argument("--repeats", type=int, default=8, help="how often a process writes a page")
    parser.add_argument("--page-mb", type=int, default=100, help="size of the pages that are written")
    parser.add_argument("--saved-mb", type=int, default=2000, help="outputs of the run whose peak memory is measured")
    parser.add_argument("--pages", type=int, default=50, help="pages of the epoch that is read")
    parser.add_argument("--read-mb", type=int, default=20, help="size of the pages that are read")
    parser.add_argument("--folder", type=Path, help="where files are written; by default that for temporary files")
    parser.add_argument("--threads", type=int, help="torch's threads; by default torch's own choice")
    parser.add_argument("--tiny", action="store_true", help="tiny pages, to try the command")
    arguments = parser.parse_args()
    if arguments.tiny:
        arguments.turns, arguments.repeats, arguments.page_mb, arguments.saved_mb = 1, 2, 10, 40
        arguments.pages, arguments.read_mb = 3, 2
    return arguments


class Children:
    """Runs sides, each in a process of its own."""

    def __init__(self, threads: int | None) -> None:
        paths = [str(Path(__file__).parent.absolute()), os.environ.get("PYTHONPATH", "")]
        self._environment = dict(os.environ) | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
        self._threads = threads

    def run(self, side: str, folder: Path, **sizes: int) -> Measures:
        """Returns what a side measures."""
        task = json.dumps({"side": side, "folder": str(folder), "sizes": sizes, "threads": self._threads})
        command = [sys.executable, "-m", "paged.one_side", task]
        done = subprocess.run(
            command, env=self._environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
        if done.returncode:
            raise RuntimeError(f"{side}: {done.stderr}")
        found: Measures = json.loads(done.stdout)
        return found

    def in_turn(self, sides: tuple[str, ...], folder: Path, turns: int, **sizes: int) -> dict[str, Measures]:
        """Returns what each side measures in all its turns; the sides' order changes from turn to turn."""
        found: dict[str, Measures] = {side: {} for side in sides}
        for turn in range(turns):
            for side in sides if turn % 2 else sides[::-1]:
                for name, values in self.run(side, folder, **sizes).items():
                    found[side].setdefault(name, []).extend(values)
        return found


def writing(children: Children, folder: Path, arguments: argparse.Namespace, each_mb: int) -> dict[str, float]:
    sizes = {"page_mb": arguments.page_mb, "each_mb": each_mb, "repeats": arguments.repeats}
    found = children.in_turn(("save_page", "dump_page", "clone_page"), folder, arguments.turns, **sizes)
    held, clone = found["save_page"]["held ms"], found["clone_page"]["ms"]
    ours, theirs = found["save_page"]["ms"], found["dump_page"]["ms"]
    return {
        "a page, ms": statistics.median(ours),
        "a page at best, ms": min(ours),
        "  the caller is held up, ms": statistics.median(held),
        "joblib.dump, ms": statistics.median(theirs),
        "joblib.dump at best, ms": min(theirs),
        "bare copies, ms": statistics.median(clone),
        "joblib.dump / a page": statistics.median(theirs) / statistics.median(ours),
        "joblib.dump / a page, both at best": min(theirs) / min(ours),
        "caller held up / bare copies": statistics.median(held) / statistics.median(clone),
    }


def reading(children: Children, folder: Path, arguments: argparse.Namespace) -> dict[str, float]:
    sizes = {"pages": arguments.pages, "page_mb": arguments.read_mb}
    make_epoch(folder, **sizes)
    warm = children.in_turn(("read_one", "load_all"), folder, arguments.turns, **sizes)
    cold: Measures = {"ms": [], "new MB": []}
    for _ in range(arguments.turns):
        _forget(folder)
        for name, values in children.run("read_one", folder, **sizes).items():
            cold[name] += values
    ours, theirs = warm["read_one"], warm["load_all"]
    return {
        "one datapoint, ms": statistics.median(ours["ms"]),
        "one datapoint, from the disk, ms": statistics.median(cold["ms"]),
        "all pages by joblib.load, ms": statistics.median(theirs["ms"]),
        "one datapoint, new MB at most": max(ours["new MB"] + cold["new MB"]),
        "all pages by joblib.load, new MB": statistics.median(theirs["new MB"]),
        "all pages / one datapoint": statistics.median(theirs["ms"]) / statistics.median(ours["ms"]),
    }


def _forget(folder: Path) -> None:
    """Lets the system drop the files from its cache."""
    for path in folder.iterdir():
        with path.open("rb") as stream:
            os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def saving(children: Children, folder: Path, arguments: argparse.Namespace) -> dict[str, float]:
    sizes = {"saved_mb": arguments.saved_mb, "page_mb": arguments.page_mb}
    found = {}
    for side in ("save_much", "dump_much"):
        (folder / side).mkdir()
        found[side] = children.run(side, folder / side, **sizes)
    ours, theirs = found["save_much"], found["dump_much"]
    return {
        "pages: growth of the peak, in pages": ours["new MB"][0] / arguments.page_mb,
        "copies and joblib.dump: the same": theirs["new MB"][0] / arguments.page_mb,
        "pages, s": ours["ms"][0] / 1e3,
        "copies and joblib.dump, s": theirs["ms"][0] / 1e3,
        "copies and joblib.dump / pages": theirs["ms"][0] / ours["ms"][0],
    }


def main() -> None:
    arguments = parse()
    children = Children(arguments.threads)
    print(", ".join(f"{name} {value}" for name, value in machine().items() if value is not None), flush=True)
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        (written := Path(name) / "written").mkdir()
        (read := Path(name) / "read").mkdir()
        (saved := Path(name) / "saved").mkdir()
        for each_mb in SIZES_MB:
            title = f"a page of {arguments.page_mb} MB in tensors of {each_mb} MB (goal: {WRITE_GOAL} x)"
            found[title] = writing(children, written, arguments, each_mb)
        title = f"1 MB of {arguments.pages} pages of {arguments.read_mb} MB"
        found[f"{title} (goal: {READ_GOAL_MS} ms, {READ_GOAL_MB} MB)"] = reading(children, read, arguments)
        title = f"{arguments.saved_mb} MB of outputs in pages of {arguments.page_mb} MB"
        found[f"{title} (goal: {PEAK_GOAL_PAGES} pages)"] = saving(children, saved, arguments)
    for title, values in found.items():
        print(title)
        for what, value in values.items():
            print(f"  {what:44}{value:12.2f}")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
