"""What happens when a loss or gradient is not finite."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from stability.config_checks import Checked, check_choice

HandlingType: TypeAlias = Literal["detect"]


@dataclass(frozen=True, kw_only=True)
class NaNHandlingConfig(Checked):
    """What happens when a loss or gradient is not finite.

    Attributes:
        handling_type: ``"detect"`` names and counts, raises an alert, and changes nothing.
    """

    handling_type: HandlingType = "detect"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self, "handling_type", get_args(HandlingType))
