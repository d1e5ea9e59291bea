"""How long the steps wait for data, in words."""

import math

from debuggers.diagnosis.data_waiting import DataWaiting
from debuggers.pictures.numbers import number_text


def waiting_line(waiting: DataWaiting) -> str:
    """Returns the share of a step that passes before its forward pass begins, in one sentence."""
    of = f" of {number_text(waiting.step_ms)} ms" if math.isfinite(waiting.step_ms) else ""
    return f"{waiting.share:.0%} of a step{of} passes before its forward pass, for example in loading data."
