"""A piece of text."""

from dataclasses import dataclass
from typing import ClassVar

from tracker_adapters.values.base import Artifact


@dataclass(frozen=True, slots=True, kw_only=True)
class Text(Artifact):
    """A piece of text, shown as Markdown where the tracker can."""

    kind: ClassVar[str] = "text"
    text: str

    def __post_init__(self) -> None:
        Artifact.__post_init__(self)
        self._check_texts("text")
