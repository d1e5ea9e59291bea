"""Our page beside TensorBoard's and MLflow's on the same run: time to a first and another chart, to react, to follow.

Run: ``python benchmarks/viewer_page.py`` on a quiet machine with chromium. The sides take turns; each turn starts the
side's server and a browser without a cache. Times are to be read side by side only.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from viewed.bytecode import compile_packages
from viewed.interactions import interactions
from viewed.large_run import Size, make_run, names_of
from viewed.live import live, record
from viewed.page_sides import DRAWN_TIMEOUT_MS, SIDES, Side
from watched.machine import machine

import stepscope

sys.path += map(str, (Path(__file__).parent.parent / "integrations_tests" / "support").iterdir())
from browser import browser_page, close_browser
from servers import free_port, serving

SWITCHES = 3
READ_WITHIN_S, LOOK_EVERY_S = 300.0, 0.02


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--points", type=int, default=1_000_000, help="values in the run")
    parser.add_argument("--names", type=int, default=2_000, help="names that they are under")
    parser.add_argument("--turns", type=int, default=3, help="how often each side is measured")
    parser.add_argument("--sides", default="stepscope,tensorboard", help="of stepscope, tensorboard, mlflow")
    parser.add_argument("--folder", type=Path, help="where the run is made, and found again")
    parser.add_argument("--json", type=Path, help="a file for what is measured")
    parser.add_argument("--tiny", action="store_true", help="a tiny run and one turn, to try the command")
    arguments = parser.parse_args()
    if arguments.tiny:
        arguments.points, arguments.names, arguments.turns = 2_000, 20, 1
    return arguments


def seconds(act: Callable[[], object]) -> float:
    """Returns how long an act takes."""
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def wait_for_names(side: Side, url: str, count: int) -> None:
    """Waits until a server has read so many names: its page asks once which there are."""
    deadline = time.monotonic() + READ_WITHIN_S
    while side.known is not None and (found := len(side.known(url))) < count:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{side.name} has read {found} of {count} names within {READ_WITHIN_S:.0f} s")
        time.sleep(LOOK_EVERY_S)


def first_chart(page: Any, side: Side, address: str) -> None:
    """Opens a page until it shows a chart."""
    page.goto("about:blank")
    page.goto(address)
    side.first(page)


def measured(side: Side, run: Path, names: list[str]) -> dict[str, Any]:
    """One turn of a side: its server is new, and so is the browser."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as temporary, browser_page() as page:
        page.set_viewport_size({"width": 1280, "height": 800})
        page.set_default_timeout(DRAWN_TIMEOUT_MS)
        page.goto("about:blank")
        port, start = free_port(), time.perf_counter()
        with serving(side.command(run, port), port=port, log=Path(temporary) / "server.log") as url:
            address = f"{url}/{side.page(run)}"
            wait_for_names(side, url, 1)
            first_chart(page, side, address)
            found["from_start_s"] = time.perf_counter() - start
            wait_for_names(side, url, len(names))
            found["reload_s"] = seconds(lambda: first_chart(page, side, address))
            found["switch_s"] = statistics.median(
                seconds(lambda name=name: side.switch(page, name)) for name in names[-SWITCHES:]
            )
            if side.sink is None:
                first_chart(page, side, address)
                found |= interactions(page)
            page.goto("about:blank")
        if side.sink is None:
            found |= measured_live(side, Path(temporary), page)
    close_browser()
    return found


def measured_live(side: Side, folder: Path, page: Any) -> dict[str, float]:
    """What our page takes to show a step of a training that writes."""
    port = free_port()
    with stepscope.open_run(folder / "live", sinks=[]) as run:
        for step in (0, 1):
            record(run, step)
        run.flush_store()
        with serving(side.command(run.path, port), port=port, log=folder / "live.log") as url:
            found = live(page, url, run)
            page.goto("about:blank")
    return found


def main() -> None:
    arguments = parse()
    compile_packages()
    size = Size(arguments.points, arguments.names, page_bytes=0)
    sides = [side for side in SIDES if side.name in arguments.sides.split(",")]
    with tempfile.TemporaryDirectory() as temporary:
        run = (arguments.folder or Path(temporary)) / "large"
        make_run(run, size)
        sinks = [side.sink for side in sides if side.sink]
        if sinks:
            for result in stepscope.sync_runs(run, to=sinks):
                print(f"{result.sink}: {result.outcome}, {result.delivered} of {result.stored}", file=sys.stderr)
        turns: dict[str, list[dict[str, Any]]] = {side.name: [] for side in sides}
        for _ in range(arguments.turns):
            for side in sides:
                turns[side.name].append(measured(side, run, names_of(size)))
    found = {
        "machine": machine(),
        "points": arguments.points,
        "names": arguments.names,
        "sides": {
            name: {figure: statistics.median(one[figure] for one in each) for figure in each[0]}
            for name, each in turns.items()
        },
        "turns": turns,
    }
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1), encoding="utf-8")
    for name, figures in found["sides"].items():
        print(f"{name:12}", "  ".join(f"{figure} {value:.3g}" for figure, value in figures.items()))


if __name__ == "__main__":
    main()
