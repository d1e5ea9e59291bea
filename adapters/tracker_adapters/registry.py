"""The sinks by name: where each one is, and what to install for it."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
from dataclasses import dataclass
from importlib.metadata import entry_points

from tracker_adapters.errors import MissingPackageError, SinkConfigError
from tracker_adapters.sink import Sink

ENTRY_POINT_GROUP = "stepscope.sinks"
_MEMBERS = ("kinds", "resolve", "look", "open", "write", "flush", "finish", "close")


@dataclass(frozen=True, slots=True)
class SinkSpec:
    """``location`` is ``module:Class``; ``packages`` maps what it imports to the distribution's name."""

    location: str
    packages: tuple[str, ...] = ()
    extra: str | None = None

    def missing(self) -> list[str]:
        """Returns the packages that cannot be found, without importing any."""
        return [name for name in self.packages if importlib.util.find_spec(name) is None]


BUILT_IN: dict[str, SinkSpec] = {
    "local": SinkSpec("tracker_adapters.sinks.local:LocalSink"),
    "tensorboard": SinkSpec(
        "tracker_adapters.sinks.tensorboard:TensorBoardSink", ("tensorboard", "google_crc32c"), "tensorboard"
    ),
    "mlflow": SinkSpec("tracker_adapters.sinks.mlflow:MLflowSink", ("mlflow", "sqlalchemy", "matplotlib"), "mlflow"),
    "wandb": SinkSpec("tracker_adapters.sinks.wandb:WandbSink", ("wandb",), "wandb"),
}


def known_sinks() -> dict[str, SinkSpec]:
    """Returns the built-in sinks and those that installed packages offer as entry points."""
    found = {entry.name: SinkSpec(entry.value) for entry in entry_points(group=ENTRY_POINT_GROUP)}
    return found | BUILT_IN


def find_sink(name: str) -> SinkSpec:
    """Returns the entry of a sink.

    Raises:
        SinkConfigError: For an unknown name; the message lists the known ones and near matches.
    """
    known = known_sinks()
    if name in known:
        return known[name]
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    raise SinkConfigError(f"unknown sink {name!r}{hint} Known sinks: {', '.join(sorted(known))}")


def load_sink(name: str) -> type[Sink]:
    """Imports and returns a sink's class; its SDK is imported only when the sink opens.

    Raises:
        SinkConfigError: For an unknown name, or an entry point that leads to no sink.
        MissingPackageError: When a package that it needs is not installed; names the extra.
    """
    spec = find_sink(name)
    if missing := spec.missing():
        install = f"pip install 'stepscope[{spec.extra}]'" if spec.extra else f"pip install {' '.join(missing)}"
        raise MissingPackageError(f"sink {name!r} needs {', '.join(missing)}, which is not installed: {install}")
    module, _, attribute = spec.location.partition(":")
    try:
        cls = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise SinkConfigError(f"sink {name!r}: cannot load {spec.location}: {error}") from error
    lacking = [member for member in _MEMBERS if not hasattr(cls, member)]
    if lacking:
        raise SinkConfigError(f"sink {name!r}: {spec.location} is no Sink: it lacks {', '.join(lacking)}")
    found: type[Sink] = cls
    return found
