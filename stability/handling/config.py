"""What happens when a loss or gradient is not finite."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from stability.config_checks import Checked, check_choice, check_positive, wrong
from stability.errors import StabilityConfigError

HandlingType: TypeAlias = Literal[
    "detect", "replace", "skip", "restore", "gradient_zeroing", "gradient_scaling", "adaptive"
]
SnapshotPlace: TypeAlias = Literal["host", "device"]
_REPLACING = ("nan_value", "inf_value")
_SNAPSHOTS = ("snapshots", "snapshot_every", "snapshot_place")
FIELDS_OF_TYPE: dict[str, tuple[str, ...]] = {
    "replace": _REPLACING,
    "skip": (),
    "restore": _SNAPSHOTS,
    "gradient_zeroing": (),
    "gradient_scaling": ("scale_factor",),
    "adaptive": (*_REPLACING, *_SNAPSHOTS, "adaptive_share", "adaptive_restore_after"),
}
"""Which fields a type reads, beside ``agree_between_ranks``."""


@dataclass(frozen=True, kw_only=True)
class NaNHandlingConfig(Checked):
    """What happens when a loss or gradient is not finite.

    A field that the type does not read must be at its default. Only ``"detect"`` takes any, so that handling can be
    switched off by one field.

    Attributes:
        handling_type: ``"detect"`` names and counts, raises an alert, and changes nothing. So do all others, and then:
            ``"replace"`` puts finite numbers in the place of NaN and infinities; ``"gradient_zeroing"`` sets each
            gradient with NaN or infinities to zero; ``"gradient_scaling"`` sets NaN and infinities to zero and
            multiplies all gradients by ``scale_factor``; ``"skip"`` makes the next ``optimizer.step()`` change
            nothing; ``"restore"`` goes back to the last good snapshot, and skips; ``"adaptive"`` replaces, skips or
            restores by severity.
        nan_value: What ``replace`` puts in the place of NaN; finite.
        inf_value: What ``replace`` puts, with the sign, in the place of infinities; finite and not negative. None
            stands for the largest finite magnitude of the same gradient.
        scale_factor: From above 0 to 1. The default halves, as a GradScaler does with its scale on an overflow
            (``backoff_factor`` of ``torch.amp.GradScaler``); a power of two rounds nothing.
        snapshots: How many snapshots ``restore`` and ``adaptive`` keep, positive.
        snapshot_every: How many good steps lie between two snapshots, positive; so much training a restore undoes at
            most.
        snapshot_place: ``"host"`` keeps snapshots in the host's memory, ``"device"`` beside what they are copies of.
        adaptive_share: ``adaptive`` skips when more than this share of all gradient elements is not finite, from 0
            to 1; up to it, it replaces. By default one in a hundred.
        adaptive_restore_after: ``adaptive`` restores from so many faulty steps in a row on, positive.
        agree_between_ranks: Decides the same on every rank when ``torch.distributed`` runs several: one small
            collective a step, in which every rank has to take part. ``detect`` decides nothing and needs none.
    """

    handling_type: HandlingType = "detect"
    nan_value: float = 0.0
    inf_value: float | None = None
    scale_factor: float = 0.5
    snapshots: int = 2
    snapshot_every: int = 10
    snapshot_place: SnapshotPlace = "host"
    adaptive_share: float = 0.01
    adaptive_restore_after: int = 3
    agree_between_ranks: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self, "handling_type", get_args(HandlingType))
        check_choice(self, "snapshot_place", get_args(SnapshotPlace))
        for name in ("snapshots", "snapshot_every", "adaptive_restore_after"):
            check_positive(self, name)
        if not math.isfinite(self.nan_value):
            raise wrong(self, "nan_value", "a finite number")
        if not (self.inf_value is None or _is_magnitude(self.inf_value)):
            raise wrong(self, "inf_value", "a finite number of at least 0, or None")
        if not 0.0 < self.scale_factor <= 1.0:
            raise wrong(self, "scale_factor", "a number above 0 and at most 1")
        if not 0.0 <= self.adaptive_share <= 1.0:
            raise wrong(self, "adaptive_share", "a number from 0 to 1")
        read = FIELDS_OF_TYPE.get(self.handling_type, tuple(DEFAULTS))
        for name, default in DEFAULTS.items():
            if name not in read and getattr(self, name) != default:
                raise StabilityConfigError(
                    f"NaNHandlingConfig: {name} is {getattr(self, name)!r}, which the handling type "
                    f"{self.handling_type!r} does not read; expected {default!r}. "
                    f"It reads {', '.join(read) or 'none of these fields'}"
                )


DEFAULTS = {
    field.name: field.default
    for field in dataclasses.fields(NaNHandlingConfig)
    if field.name not in ("handling_type", "agree_between_ranks")
}
"""The fields that not every type reads, with their defaults."""


def _is_magnitude(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0.0 <= value < math.inf
