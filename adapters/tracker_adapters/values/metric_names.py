"""Which of a run's scalars a person asks for first: losses and metrics, not what is measured of single tensors."""

from collections.abc import Iterable

FIRST = ("loss", "validation/loss", "validation/accuracy", "accuracy", "learning_rate", "total_norm/gradients")
SYSTEM = "system/"
"""How the names begin that tell what a run's machine is busy with; trackers have a page of its own for them."""
_LAST = (
    "diagnosis/",
    "gradient_norm/",
    "weight_norm/",
    "update_norm/",
    "update_ratio/",
    "activations/",
    "stability/",
    SYSTEM,
)
"""How names begin that a session records of tensors, behind its scope, and a run of its machine: many, not asked for
first."""


def by_weight(names: Iterable[str]) -> list[str]:
    """Returns names with what a person asks for first at the beginning; shallow names come before deep ones."""
    return sorted(names, key=lambda name: (_place(name), _comes_last(name), name.count("/"), name))


def metrics_first(names: Iterable[str], most: int) -> list[str]:
    """Returns at most so many names, the losses and metrics among them, in the order of ``by_weight``."""
    return [name for name in by_weight(names) if not _comes_last(name) and name.count("/") <= 1][:most]


def last_step(last_steps: Iterable[tuple[str, int]]) -> int | None:
    """Returns the last step of a training, by the last step of each of its names; None where there is none.

    What is recorded of the machine counts seconds in place of steps.
    """
    return max((step for name, step in last_steps if not name.startswith(SYSTEM)), default=None)


def _place(name: str) -> int:
    return FIRST.index(name) if name in FIRST else len(FIRST)


def _comes_last(name: str) -> bool:
    return any(f"/{start}" in f"/{name}" for start in _LAST)
