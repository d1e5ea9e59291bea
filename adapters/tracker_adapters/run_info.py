"""The identity of a run."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

from tracker_adapters.errors import ArtifactError
from tracker_adapters.kinds.table import Cell
from tracker_adapters.redaction import redact, redact_config
from tracker_adapters.values.plain import plain_config, storable

RunStatus: TypeAlias = Literal["running", "finished", "failed"]
"""How a run goes, or how it ended; a run whose process died is ``failed``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInfo:
    """Who a run is: ``id`` is unique, ``name`` is for people, ``config`` is JSON-able, ``status`` its state.

    ``environment`` is where rank 0's last attempt ran: names and values for people.
    Secrets in the name, the configuration and the tags are replaced by ``***``; see ``redaction.redact_config``.
    """

    id: str
    name: str
    config: Mapping[str, Any] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    status: RunStatus = "running"
    created_ns: int = field(default_factory=time.time_ns)
    environment: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for key in ("id", "name"):
            if not isinstance(text := getattr(self, key), str):
                raise ArtifactError(f"run {self.name!r}: {key} is {type(text).__name__} {text!r}; expected a str")
            object.__setattr__(self, key, redact(storable(text)))
        object.__setattr__(self, "config", redact_config(plain_config(self.config)))
        object.__setattr__(self, "tags", tuple(map(redact, _check_tags(self.tags))))
        if self.status not in get_args(RunStatus):
            raise ArtifactError(f"run {self.name!r}: status is {self.status!r}; expected one of {get_args(RunStatus)}")

    def flat_config(self) -> dict[str, Cell]:
        """Returns the configuration with nested keys joined by dots: ``{"optim": {"lr": 1}}`` -> ``optim.lr``."""
        return dict(_flatten(self.config, ""))


def _check_tags(tags: object) -> tuple[str, ...]:
    if isinstance(tags, str) or not isinstance(tags, Iterable):
        raise ArtifactError(f"tags are {tags!r}; expected a list of str")
    checked = tuple(tags)
    for tag in checked:
        if not isinstance(tag, str) or not tag:
            raise ArtifactError(f"tags hold {tag!r}; expected non-empty str")
    return tuple(map(storable, checked))


def _flatten(config: Mapping[str, Any], prefix: str) -> Iterable[tuple[str, Cell]]:
    for key, value in config.items():
        if isinstance(value, Mapping) and value:
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", str(value) if isinstance(value, (list, Mapping)) else value
