"""What happens when a loss or gradient is not finite."""

import dataclasses
from dataclasses import dataclass
from sys import float_info
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta
from tracker_adapters.values.checked_values import PositiveInteger

from stability.config_checks import Checked, UpToOne
from stability.errors import StabilityConfigError

HandlingType: TypeAlias = Literal[
    "detect", "replace", "skip", "restore", "gradient_zeroing", "gradient_scaling", "adaptive"
]
SnapshotPlace: TypeAlias = Literal["host", "device"]
_Magnitude: TypeAlias = Annotated[float, Meta(ge=0, le=float_info.max, description="a finite number of at least 0")]
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
    nan_value: Annotated[float, Meta(ge=-float_info.max, le=float_info.max, description="a finite number")] = 0.0
    inf_value: _Magnitude | None = None
    scale_factor: UpToOne = 0.5
    snapshots: PositiveInteger = 2
    snapshot_every: PositiveInteger = 10
    snapshot_place: SnapshotPlace = "host"
    adaptive_share: Annotated[float, Meta(ge=0, le=1, description="a number from 0 to 1")] = 0.01
    adaptive_restore_after: PositiveInteger = 3
    agree_between_ranks: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        read = FIELDS_OF_TYPE.get(self.handling_type, tuple(DEFAULTS))
        for name, default in DEFAULTS.items():
            if name not in read and getattr(self, name) != default:
                raise StabilityConfigError(
                    f"NaNHandlingConfig: {name} is {getattr(self, name)!r}, which the handling type "
                    f"{self.handling_type!r} does not use; expected {default!r}. "
                    f"It reads {', '.join(read) or 'none of these fields'}"
                )


DEFAULTS = {
    field.name: field.default
    for field in dataclasses.fields(NaNHandlingConfig)
    if field.name not in ("handling_type", "agree_between_ranks")
}
"""The fields that not every type reads, with their defaults."""
