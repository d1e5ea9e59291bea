"""The registry of sinks: which class each name stands for, and what to install for it."""

import difflib
import importlib
import importlib.util
import re
from dataclasses import dataclass

from tracker_adapters.errors import MissingPackageError, SinkConfigError
from tracker_adapters.sink import Sink

ENTRY_POINT_GROUP = "stepscope.sinks"
_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,60}")
_MEMBERS = ("kinds", "resolve", "look", "open", "write", "flush", "finish", "close")


@dataclass(frozen=True, slots=True)
class SinkSpec:
    """``location`` is ``module:Class``; ``packages`` are what it imports, which our ``extra`` brings.

    ``distribution`` is the installed package that offers the sink; empty for a built-in one. ``note`` is the
    ``module:function`` that says what a user should know of the installed packages; an empty text for nothing.
    """

    location: str
    packages: tuple[str, ...] = ()
    extra: str | None = None
    distribution: str = ""
    note: str = ""

    def missing(self) -> list[str]:
        """Returns the packages that cannot be found, without importing any."""
        return [name for name in self.packages if importlib.util.find_spec(name) is None]


BUILT_IN: dict[str, SinkSpec] = {
    "local": SinkSpec("tracker_adapters.sinks.local:LocalSink"),
    "tensorboard": SinkSpec(
        "tracker_adapters.sinks.tensorboard:TensorBoardSink", ("tensorboard", "google_crc32c"), "tensorboard"
    ),
    "mlflow": SinkSpec(
        "tracker_adapters.sinks.mlflow:MLflowSink", ("mlflow", "sqlalchemy", "alembic", "matplotlib", "PIL"), "mlflow"
    ),
    "wandb": SinkSpec(
        "tracker_adapters.sinks.wandb:WandbSink",
        ("wandb",),
        "wandb",
        note="tracker_adapters.sinks.wandb.sdk_format:note",
    ),
    "webhook": SinkSpec("tracker_adapters.sinks.webhook:WebhookSink"),
}


def known_sinks() -> dict[str, SinkSpec]:
    """Returns the built-in sinks and those that installed packages offer as entry points.

    A package cannot replace a built-in sink; of two packages with one name for a sink, the first on the path counts.
    """
    from importlib.metadata import entry_points  # takes a tenth of the imports of a run that does not need it

    found: dict[str, SinkSpec] = {}
    for entry in entry_points(group=ENTRY_POINT_GROUP):
        # The rest could not be written in a list of sinks, or is no text for a terminal.
        if _NAME.fullmatch(entry.name):
            distribution = f"{entry.dist.name} {entry.dist.version}" if entry.dist else ""
            found.setdefault(entry.name, SinkSpec(entry.value, distribution=distribution))
    return found | BUILT_IN


def find_sink(name: str) -> SinkSpec:
    """Returns the entry of a sink.

    Raises:
        SinkConfigError: For an unknown name; the message lists the known ones and near matches.
    """
    if name in BUILT_IN:
        return BUILT_IN[name]
    known = known_sinks()  # reads files of every installed package
    if name in known:
        return known[name]
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {close[0]!r}? Known" if close else "known"
    raise SinkConfigError(f"unknown sink {name!r}; {hint} sinks are {', '.join(sorted(known))}")


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
    by = f" of {spec.distribution}" if spec.distribution else ""
    try:
        cls = getattr(importlib.import_module(module), attribute)
    except Exception as error:  # a foreign module can raise anything
        reason = f"{error}" if isinstance(error, (ImportError, AttributeError)) else repr(error)
        raise SinkConfigError(f"sink {name!r}{by}: cannot load {spec.location}: {reason}") from error
    lacking = [member for member in _MEMBERS if not hasattr(cls, member)]
    if lacking:
        raise SinkConfigError(f"sink {name!r}{by}: {spec.location} is not a Sink: it lacks {', '.join(lacking)}")
    found: type[Sink] = cls
    return found
