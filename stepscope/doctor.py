"""What ``stepscope doctor`` finds out about the machine."""

import importlib
import importlib.util
import os
import platform
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from pathlib import Path

from tracker_adapters.errors import SinkConfigError
from tracker_adapters.native.extension import instructions, kernels, why_not
from tracker_adapters.redaction import redact
from tracker_adapters.registry import SinkSpec, known_sinks, load_sink
from tracker_adapters.store.log_probe import why_no_log

from debuggers.detectors.signals.plugins import DetectorPlugin, detector_plugins
from stepscope.runs.slow_folders import CHANGES_OF_A_START, TELL_AFTER_S, existing, seconds_of_a_change
from stepscope.viewer.serving import why_not as why_not_viewed

CORE_PACKAGES = ("stepscope", "numpy", "joblib", "ml_dtypes", "msgspec", "psutil")
ANSWER_S = 15.0
"""How long a folder is asked: with half a second for a call, which is slow, its answer takes ten."""


def examine(folder: Path | None = None) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yields titled sections of (what, finding) rows; packages are really imported, since a found one can be broken.

    Args:
        folder: Where runs are to lie, or the nearest folder above it that exists; by default the working folder.
    """
    asked = (Path.cwd() if folder is None else folder).expanduser().absolute()
    yield "versions", [("Python", f"{platform.python_version()} ({sys.executable})"), *map(_version_row, CORE_PACKAGES)]
    yield "training", [("torch", _torch()), ("measuring", _measuring()), *_measuring_on_devices()]
    yield "run store", [("SQLite", sqlite3.sqlite_version), *_blocked(asked), *_store_rows(existing(asked))]
    yield "viewer", [("stepscope view", why_not_viewed() or "works")]
    yield "sinks", [(name, _sink(name, spec)) for name, spec in sorted(known_sinks().items())]
    if detectors := sorted((plugin.name, _detector(plugin)) for plugin in detector_plugins()):
        yield "detectors of other packages", detectors


def _version_row(distribution: str) -> tuple[str, str]:
    try:
        return distribution, version(distribution)
    except PackageNotFoundError:
        return distribution, "not installed: pip install --force-reinstall stepscope"


def _torch() -> str:
    try:
        import torch
    except ImportError as error:
        return f"not usable ({error}): pip install 'stepscope[torch]'"
    devices = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    return f"{torch.__version__}, {', '.join(devices) if devices else 'CPU only'}"


def _measuring() -> str:
    if importlib.util.find_spec("torch") is None:
        return "needs torch"
    if kernels() is None:
        return f"with torch operations, tens of times slower: {why_not()}"
    return f"with compiled code ({instructions()})"


def _measuring_on_devices() -> Iterator[tuple[str, str]]:
    try:
        import torch

        from debuggers.measurement.gpu import why_not
    except ImportError:
        return
    for index in range(torch.cuda.device_count()):
        reason = why_not(torch.device("cuda", index))
        yield f"on cuda:{index}", f"with torch operations, slower: {reason}" if reason else "with compiled code"


def _blocked(place: Path) -> Iterator[tuple[str, str]]:
    """What stands where a folder is to be, or on the way to it: the folder above that, which is timed, says nothing."""
    for one in (place, *place.parents):
        if os.path.lexists(one) and not one.is_dir():
            yield str(one), "no folder, so that no run can lie there: choose another place, or move it away"


def _store_rows(folder: Path) -> Iterator[tuple[str, str]]:
    yield f"WAL in {folder}", _answer(lambda: _wal(folder))
    yield f"files in {folder}", _answer(lambda: _speed(folder))


def _answer(ask: Callable[[], str]) -> str:
    """What a question about a folder gives, or that there was no answer in time: a file system may hang."""
    answers: list[str] = []
    thread = threading.Thread(target=lambda: answers.append(ask()), daemon=True)
    thread.start()
    thread.join(ANSWER_S)
    return answers[0] if answers else f"no answer in {ANSWER_S:g} s: keep runs on a local disk"


def _speed(folder: Path) -> str:
    try:
        each_s = seconds_of_a_change(folder)
    except OSError as error:
        return f"cannot be tested ({error.strerror}): keep runs in a writable folder"
    start_s = CHANGES_OF_A_START * each_s
    if start_s < TELL_AFTER_S:
        return f"{1e3 * each_s:.2g} ms to make, write, rename or remove one"
    return (
        f"slow: {each_s:.2g} s to make, write, rename or remove one, so that opening a run takes about "
        f"{start_s:.0f} s: keep runs on a local disk"
    )


def _wal(folder: Path) -> str:
    try:
        why = why_no_log(folder)
    except OSError as error:
        return f"cannot be tested ({error.strerror}): keep runs in a writable folder"
    return f"does not work ({why}; a network file system?): keep runs on a local disk" if why else "works"


def _detector(plugin: DetectorPlugin) -> str:
    by = plugin.distribution or "an unknown package"
    return redact(f"does not work: {plugin.problem} (of {by})") if plugin.problem else f"works ({by})"


def _version_of(package: str) -> str:
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:  # it came with another distribution, such as a reduced one: a search of a second
        distributions = packages_distributions().get(package)
    return f"{distributions[0]} {version(distributions[0])}" if distributions else f"{package}, installed by hand"


def _sink(name: str, spec: SinkSpec) -> str:
    if spec.distribution:
        try:
            load_sink(name)
        except SinkConfigError as error:
            return f"does not work: {error}"
        return f"works ({spec.distribution})"
    install = f"pip install 'stepscope[{spec.extra}]'"
    if missing := spec.missing():
        return f"needs {', '.join(missing)}: {install}"
    versions = []
    for package in spec.packages:
        try:
            importlib.import_module(package)
        except Exception as error:  # a broken SDK can raise anything
            return redact(f"{package} cannot be imported ({type(error).__name__}: {error}): {install}")
        versions.append(_version_of(package))
    works = f"works ({', '.join(versions)})" if versions else "works"
    if spec.note:
        module, _, function = spec.note.partition(":")
        if note := getattr(importlib.import_module(module), function)():
            works += f"; {note}"
    return works
