"""The frameworks as they are installed: that they are there, and that the tests ran with their version."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version

from tracker_adapters.errors import MissingPackageError

TESTED = {
    "accelerate": ("1.15", "1.15"),
    "keras": ("3.15", "3.15"),
    "lightning": ("2.6", "2.6"),
    "mmengine": ("0.10", "0.10"),
    "pytorch-ignite": ("0.5", "0.5"),
    "ray": ("2.60", "2.60"),
    "torchtitan": ("0.3", "0.3"),
    "transformers": ("5.0", "5.23"),
}
"""The first and the last minor version that the tests ran with, by the name under which a framework is installed."""
_log = logging.getLogger(__name__)
_warned: set[str] = set()


@contextmanager
def imported_for(extra: str) -> Iterator[None]:
    """Says what to install where the imports of a framework in the block fail.

    Args:
        extra: The extra of stepscope that brings the framework; also the name of the integration.

    Raises:
        MissingPackageError: For an ImportError of any cause, also of a package that the framework itself lacks.
    """
    try:
        yield
    except ImportError as error:
        raise MissingPackageError(
            f"stepscope.integrations.{extra} cannot import its framework ({error}): pip install 'stepscope[{extra}]'"
        ) from error


def check_version(package: str) -> None:
    """Warns once of a framework whose version was not tested; ``package`` is a key of ``TESTED``."""
    if package in _warned:
        return
    try:
        installed = version(package)
    except PackageNotFoundError:  # a copy of the sources
        return
    oldest, newest = TESTED[package]
    if not _minor(oldest) <= _minor(installed) <= _minor(newest):
        _warned.add(package)
        _log.warning(
            "stepscope was tested with %s %s, and %s is installed: it continues, but some data may be missing",
            package, oldest if oldest == newest else f"{oldest} to {newest}", installed,
        )  # fmt: skip


def _minor(text: str) -> tuple[int, ...]:
    return tuple(int("".join(filter(str.isdigit, part)) or 0) for part in text.split(".")[:2])
