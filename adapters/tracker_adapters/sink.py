"""The sink protocol: the one interface between delivery and a tracker."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

from tracker_adapters.artifacts import KINDS, Artifact, RunInfo, RunStatus
from tracker_adapters.batch import Batch, Column, HistogramRows, ScalarColumns
from tracker_adapters.errors import NO_ROOM, SinkConfigError, SinkError, SinkUnavailable, StartOver
from tracker_adapters.histograms.columns import HistogramColumns
from tracker_adapters.redaction import redact, redact_config
from tracker_adapters.reports import Report, is_page_name, is_report_name
from tracker_adapters.safe_files import check_way
from tracker_adapters.values.checked_values import expected, is_valid
from tracker_adapters.values.metric_names import metrics_first

SCRIPT_VARIABLE = "STEPSCOPE_SCRIPT"
"""The environment variable that names the training script to the processes beside it."""

BASIC_KINDS = frozenset(kind for kind, cls in KINDS.items() if cls.plainer is Artifact.plainer)
"""The kinds that every sink takes; each other kind has a plainer form, which is one of these."""

Unshown = Mapping[str, int]
"""Why artifacts of a batch cannot be shown, and how many: ``{"late_step": 3}``."""


@runtime_checkable
class Sink(Protocol):
    """Carries artifacts into one tracker.

    Delivery calls, from one thread: ``open`` once, then ``write`` and ``flush`` in turn, ``finish`` when the
    run has ended and everything is delivered, and ``close``. It stores the token of ``flush`` together with
    its own position, in one transaction. After a crash or an error it makes a new sink, opens it with the last
    stored token and writes again everything after that position.

    A sink is made from keywords that JSON can hold: what its ``resolve`` returned.

    A sink whose calls make many requests may have an attribute ``progressed``, a function without arguments. Delivery
    sets it before ``open``; calling it after each answer keeps a call that goes on from being taken for one that hangs.
    One that shows people what to look at may have an attribute ``view_command``, a text: delivery sets it to the
    command that opens the run in the viewer.

    One that can change what it has said of a run may have a method ``describe``, which takes a RunInfo: delivery calls
    it between writes when the run's name, configuration, tags or environment have changed since ``open``. It may raise
    StartOver, to be opened again without a token.
    """

    kinds: ClassVar[frozenset[str]]
    """The kinds that the sink has a rule for: ``BASIC_KINDS``, which are scalars, histograms, images, texts, alerts,
    tables, pages and files, and perhaps others. Delivery hands it what it has no rule for in a plainer form."""

    @classmethod
    def resolve(cls, options: Mapping[str, Any], run_folder: Path) -> dict[str, Any]:
        """Completes the user's options in the training process, without importing a tracker's SDK.

        Fills in defaults from the environment and the process (such as the user's active run), checks the
        values, and makes paths absolute, since delivery happens in another process.

        Args:
            options: What the user gave; ``target`` is what follows the colon in ``"local:out"``.
            run_folder: The run's folder, absolute.

        Returns:
            The constructor's keywords, always with ``target``. The sink's type and target identify the position that
            delivery keeps for it.

        Raises:
            SinkConfigError: For an unknown option or a bad value, naming both and what was expected.
        """
        ...

    @classmethod
    def look(cls, options: Mapping[str, Any]) -> str:
        """Returns the command that shows the output to a person, or the place where it lies.

        Args:
            options: What ``resolve`` returned.
        """
        ...

    def open(self, info: RunInfo, token: bytes | None) -> None:
        """Starts or resumes: afterwards the output holds exactly what it held at ``token``, or nothing.

        Where a tracker cannot forget, the sink makes writing the same artifact again change nothing.

        Args:
            info: The run.
            token: What the last stored ``flush`` returned; None when nothing was delivered yet.
        """
        ...

    def write(self, batch: Batch) -> Unshown:
        """Takes a batch; it may be buffered until ``flush``.

        Returns:
            The artifacts that this tracker can never show, by reason; empty when all are taken.

        Raises:
            Exception: When the batch cannot be taken now; delivery retries from the last token.
        """
        ...

    def flush(self) -> bytes:
        """Makes everything written durable and returns the token that stands for it."""
        ...

    def finish(self, status: RunStatus) -> None:
        """Tells the tracker how the run ended; may come again after a crash."""
        ...

    def close(self) -> None:
        """Releases everything; a second call does nothing. Not called after a crash."""
        ...


def checked_options(kind: str, options: Mapping[str, Any], allowed: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a copy of ``options`` after checking names and values.

    Args:
        kind: The sink's name in the registry, for messages.
        options: What the user gave; values that are None count as not given and are left out. A Path becomes a str.
        allowed: Each option's name and annotation, such as ``str`` or ``int | bool``, as msgspec understands it.

    Raises:
        SinkConfigError: For an unknown name, or a value that is not what its annotation says.
    """
    given = {key: str(value) if isinstance(value, Path) else value for key, value in options.items()}
    given = {key: value for key, value in given.items() if value is not None}
    for name, value in given.items():
        if name not in allowed:
            raise SinkConfigError(f"sink {kind!r} has no option {name!r}; expected one of {', '.join(sorted(allowed))}")
        if not is_valid(value, allowed[name]):
            shown = redact_config({name: value})[name]
            raise SinkConfigError(f"sink {kind!r}: option {name!r} is {shown!r}; expected {expected(allowed[name])}")
    return given


def local_folder(kind: str, target: str, run_folder: Path) -> str:
    """Returns a sink's option ``target`` as the absolute path of a folder, links resolved.

    Raises:
        SinkConfigError: When it is no path on this machine, such as a URL.
        UnsafeFileError: When it lies in the run's folder, behind a link.
    """
    if not target or "://" in target or "\0" in target:
        raise SinkConfigError(f"sink {kind!r}: option 'target' is {target!r}; expected a local folder")
    # Parts ".." are taken by name: through a link they would lead somewhere else.
    path = Path(os.path.normpath(Path(target).expanduser().absolute()))
    check_way(run_folder.absolute(), path)
    return str(path.resolve())


@contextmanager
def folder_errors(kind: str, folder: str) -> Iterator[None]:
    """Raises what delivery understands for an ``OSError`` of the block, with the sink and its folder in the message.

    Raises:
        SinkUnavailable: When the folder's disk or quota is full; no artifact is at fault.
        SinkError: For any other ``OSError``.
    """
    try:
        yield
    except OSError as error:
        what = SinkUnavailable if error.errno in NO_ROOM else SinkError
        raise what(f"sink {kind!r}: cannot write to {folder}: {error.strerror or error}") from error


__all__ = [
    "BASIC_KINDS",
    "NO_ROOM",
    "SCRIPT_VARIABLE",
    "Batch",
    "Column",
    "HistogramColumns",
    "HistogramRows",
    "Report",
    "RunInfo",
    "RunStatus",
    "ScalarColumns",
    "Sink",
    "SinkConfigError",
    "SinkError",
    "SinkUnavailable",
    "StartOver",
    "Unshown",
    "checked_options",
    "folder_errors",
    "is_page_name",
    "is_report_name",
    "local_folder",
    "metrics_first",
    "redact",
]
