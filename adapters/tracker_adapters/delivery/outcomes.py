"""What comes of a delivery, and how its process says so."""

from typing import Literal, TypeAlias

Outcome: TypeAlias = Literal["done", "caught_up", "gave_up", "busy", "stopped"]
EXIT_CODES: dict[Outcome, int] = {"done": 0, "caught_up": 83, "gave_up": 84, "busy": 85, "stopped": 86}
"""How a delivery process that did not crash says what came of it."""
