"""Says what a closed run's sinks have not got yet, and what to do if they never do; and what was lost before."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from tracker_adapters.config import SinkConfig
from tracker_adapters.errors import StepscopeError
from tracker_adapters.redaction import redact
from tracker_adapters.registry import load_sink
from tracker_adapters.store.ledger import Position
from tracker_adapters.terminal_text import printable_line
from tracker_adapters.wording import are, counted

from stepscope.runs.places import short_path


def pending_line(
    run_folder: Path, position: Position, pending: int, sinks: Sequence[object], *, by_process: bool
) -> str:
    """Returns one line about a sink that has not taken everything.

    Args:
        run_folder: The run.
        position: How far the sink is.
        pending: How many artifacts it has not taken.
        sinks: Those of the run.
        by_process: Whether a process delivers, which continues after the run was closed.
    """
    waiting = f"{counted(pending, 'artifacts')} {are(pending)} still waiting"
    text = f"{waiting} for {position.sink} ({printable_line(position.target)})"
    config = next((sink for sink in sinks if _is_of(sink, position)), None)
    if not isinstance(config, SinkConfig) or not by_process:
        return f"{text}; safe in the run store {short_path(run_folder)}"
    command = sync_command(run_folder, config.type, config.target)
    return f"{text}; delivery continues in the background; if it stops: {command}"


def sync_command(run_folder: Path, sink: str, target: str) -> str:
    """Returns the command that delivers to a sink what it has not got yet, in one line without secrets."""
    to = _specification(sink, target, run_folder)
    return printable_line(shlex.join(["stepscope", "sync", str(short_path(run_folder)), "--to", to]))


def lost_line(run_folder: Path, lost: Mapping[str, int], error: Exception | None) -> str:
    """Returns one line about what never came into the run's store.

    Args:
        run_folder: The run.
        lost: How many artifacts were lost, by reason; not empty.
        error: What the store failed with last; None when it never did.
    """
    count = sum(lost.values())
    text = f"{counted(count, 'artifacts')} {are(count)}"
    reasons = ", ".join(f"{reason} ({number:,})" for reason, number in sorted(lost.items()))
    cause = "" if error is None else f"; the store's last error: {printable_line(redact(str(error) or repr(error)))}"
    return f"{text} lost and not in the run store {short_path(run_folder)}: {reasons}{cause}"


def _is_of(sink: object, position: Position) -> bool:
    return isinstance(sink, SinkConfig) and (sink.type, redact(sink.target)) == (position.sink, position.target)


def _specification(sink: str, target: str, run_folder: Path) -> str:
    """What ``--to`` takes for the sink: its name alone, if its output lies where it does by default."""
    try:
        is_default = redact(load_sink(sink).resolve({}, run_folder)["target"]) == redact(target)
    except StepscopeError:
        is_default = False
    return sink if is_default else redact(f"{sink}:{target}")
