"""Something a person should know."""

from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias, get_args

from tracker_adapters.errors import ArtifactError
from tracker_adapters.values.base import Artifact

AlertLevel: TypeAlias = Literal["info", "warning", "error"]
"""The levels of an alert, from the lowest to the highest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert(Artifact):
    """Something a person should know. ``name`` is its kind, such as ``exploding_gradient``."""

    kind: ClassVar[str] = "alert"
    by_step: ClassVar[bool] = False
    level: AlertLevel = "warning"
    message: str

    def __post_init__(self) -> None:
        Artifact.__post_init__(self)
        self._check_texts("message")
        if self.level not in get_args(AlertLevel):
            raise ArtifactError(
                f"alert {self.name!r}: level is {self.level!r}; expected one of {', '.join(get_args(AlertLevel))}"
            )
