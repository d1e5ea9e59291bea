"""Which sinks a run has: from strings, dicts, TOML files and the environment to checked configurations."""

import json
import os
import tomllib
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from sys import float_info
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta

from tracker_adapters.errors import MissingPackageError, SinkConfigError
from tracker_adapters.registry import load_sink
from tracker_adapters.sink import Sink
from tracker_adapters.values.checked_values import at_least, check_value

SINKS_VARIABLE = "STEPSCOPE_SINKS"
MISSING_VARIABLE = "STEPSCOPE_MISSING"
PRIORITY_VARIABLE = "STEPSCOPE_PRIORITY"
"""``lowest``, the default, or ``same``: the priority of processes beside a training, compared with its own."""

HISTOGRAMS = 1000
DEADLINE_S = 60.0
_OF_EVERY_SINK: dict[str, Any] = {
    "histograms": at_least(0),
    "deadline_s": Annotated[float, Meta(gt=0, le=float_info.max, description="seconds above 0")],
}

Missing: TypeAlias = Literal["raise", "local"]
SinkSpec: TypeAlias = "str | Path | Mapping[str, Any] | Sink"
SinksSpec: TypeAlias = "SinkSpec | Sequence[SinkSpec]"


@dataclass(frozen=True, slots=True)
class SinkConfig:
    """One chosen sink: its name in the registry, the keywords that its ``resolve`` returned, and how to deliver to it.

    ``histograms`` is how many histograms of a name it shows singly before neighbours are merged (see
    ``delivery.thinning``), 0 for all; ``deadline_s`` how long a call of the sink may wait for its tracker.
    """

    type: str
    options: dict[str, Any]
    histograms: int = HISTOGRAMS
    deadline_s: float = DEADLINE_S

    @property
    def target(self) -> str:
        """Where the sink's output goes; with ``type`` it names the sink's position in the run."""
        return str(self.options["target"])


def choose_sinks(
    sinks: SinksSpec,
    run_folder: Path,
    *,
    missing: Missing = "raise",
    environ: Mapping[str, str] = os.environ,
    number: int = 1,
) -> list[SinkConfig | Sink]:
    """Returns the sinks of a run; objects that are sinks already pass as they are.

    Args:
        sinks: ``"local"``, ``"local:out"`` (name and target), ``{"type": "local", "path": …}``
            (other keys are the sink's options; ``histograms`` and ``deadline_s`` are options of every sink, see
            ``SinkConfig``), the path of a TOML file with a ``sinks`` list, a mapping with
            that list, or a sequence of these.
        run_folder: The run's folder, absolute.
        missing: What to do when a sink's package is not installed: raise, or warn and use the local sink, from
            where a later sync carries on.
        environ: ``STEPSCOPE_SINKS`` there replaces ``sinks``: names separated by commas, a JSON list or a TOML
            file; empty or ``none`` for no sink. ``STEPSCOPE_MISSING`` replaces ``missing``.

        number: What stands behind the run's name because it was taken; from 2 on it is also put behind a target that
            was given to a sink which needs a folder for each run.

    Raises:
        SinkConfigError: For an unknown sink or option, or two sinks with one target.
        MissingPackageError: When a package is missing and ``missing`` is ``raise``; names the extra.
    """
    missing = _missing_policy(environ.get(MISSING_VARIABLE) or missing)
    if (priority := environ.get(PRIORITY_VARIABLE, "lowest")) not in ("lowest", "same"):
        raise SinkConfigError(f"{PRIORITY_VARIABLE} is {priority!r}; expected lowest or same")
    from_environment = environ.get(SINKS_VARIABLE)
    specs = _parse_variable(from_environment) if from_environment is not None else list(_flatten(sinks))
    chosen: list[SinkConfig | Sink] = []
    for spec in specs:
        if not isinstance(spec, (str, Path, Mapping)):
            chosen.append(_checked_object(spec))
            continue
        name, options = _parse(spec)
        delivery = _delivery_options(name, options)
        try:
            cls = load_sink(name)
        except MissingPackageError as error:
            if missing == "raise":
                raise
            warnings.warn(f"{error}. Until then its artifacts go to local files.", RuntimeWarning, stacklevel=3)
            name, options, cls = "local", {}, load_sink("local")
        if number > 1 and getattr(cls, "folder_per_run", False) and isinstance(options.get("target"), str | Path):
            options["target"] = f"{str(options['target']).rstrip('/')}-{number}"
        config = SinkConfig(name, cls.resolve(options, run_folder), **delivery)
        if config not in chosen:
            chosen.append(config)
    _check_distinct(chosen)
    return chosen


def _flatten(sinks: Any) -> Iterable[Any]:
    if isinstance(sinks, Mapping) and "type" not in sinks:
        yield from _flatten(_sinks_of(sinks, "the mapping"))
    elif isinstance(sinks, (str, Path)) and str(sinks).endswith(".toml"):
        yield from _flatten(_read_toml(Path(sinks)))
    elif isinstance(sinks, (str, Path, Mapping)) or not isinstance(sinks, Iterable):
        yield sinks
    else:
        for item in sinks:
            yield from _flatten(item)


def _read_toml(path: Path) -> Any:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SinkConfigError(f"cannot read the sinks from {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SinkConfigError(f"{path} is not valid TOML: {error}") from error
    return _sinks_of(content, str(path))


def _sinks_of(content: Mapping[str, Any], where: str) -> list[Any]:
    found = content.get("sinks")
    if not isinstance(found, list):
        raise SinkConfigError(f"{where} has {sorted(content)}; expected a list named 'sinks', or one sink's 'type'")
    return found


def _parse_variable(text: str) -> list[Any]:
    text = text.strip()
    if text in {"", "none"}:
        return []
    if not text.startswith(("[", "{")):
        return [part for item in text.split(",") if item.strip() for part in _flatten(item.strip())]
    try:
        return list(_flatten(json.loads(text)))
    except ValueError as error:
        raise SinkConfigError(f"{SINKS_VARIABLE} is {text!r}, which is not valid JSON: {error}") from error


def _parse(spec: str | Path | Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The sink's name and its options; what follows the first colon of a string is the target."""
    if isinstance(spec, Mapping):
        options = dict(spec)
        name = options.pop("type", None)
        if not isinstance(name, str):
            raise SinkConfigError(f"sink {dict(spec)!r}: 'type' is {name!r}; expected the name of a sink")
        if "path" in options:
            options.setdefault("target", options.pop("path"))
        return name, options
    name, _, target = str(spec).partition(":")
    return name.strip(), {"target": target} if target else {}


def _delivery_options(name: str, options: dict[str, Any]) -> dict[str, Any]:
    """Takes the options that every sink has out of ``options``."""
    found = {key: options.pop(key) for key in _OF_EVERY_SINK if options.get(key) is not None}
    for key, value in found.items():
        check_value(f"sink {name!r}: option {key!r}", value, _OF_EVERY_SINK[key], SinkConfigError)
    return found


def _missing_policy(value: str) -> Missing:
    check_value("missing", value, Missing, SinkConfigError)
    return value  # type: ignore[return-value]  # checked above


def _checked_object(sink: Any) -> Sink:
    if isinstance(sink, type) or not isinstance(sink, Sink):
        raise SinkConfigError(f"{sink!r} is not a sink; expected a name such as 'local', a mapping or a Sink object")
    return sink


def sink_identity(sink: SinkConfig | Sink, number: int) -> tuple[str, str]:
    """Returns a sink's type and target, which name its position in a run.

    Args:
        sink: A configuration, or an object, which may lack a ``target``.
        number: Stands for the target of an object that has none: its place among the run's sinks.
    """
    if isinstance(sink, SinkConfig):
        return sink.type, sink.target
    return type(sink).__name__, str(getattr(sink, "target", number))


def _check_distinct(chosen: Sequence[SinkConfig | Sink]) -> None:
    seen = set()
    for number, sink in enumerate(chosen):
        name, target = identity = sink_identity(sink, number)
        if identity in seen:
            raise SinkConfigError(f"two {name!r} sinks have the target {target!r}; give each its own")
        seen.add(identity)
