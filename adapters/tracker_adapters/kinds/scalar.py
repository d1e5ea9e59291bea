"""One number."""

from dataclasses import dataclass
from typing import ClassVar

from tracker_adapters.values.arrays import as_float
from tracker_adapters.values.base import Artifact


@dataclass(frozen=True, slots=True, kw_only=True)
class Scalar(Artifact):
    """One number. ``value``: float64; NaN and infinity are kept."""

    kind: ClassVar[str] = "scalar"
    value: float

    def __post_init__(self) -> None:
        Artifact.__post_init__(self)
        if type(self.value) is not float:
            object.__setattr__(self, "value", as_float(f"scalar {self.name!r}", self.value))
