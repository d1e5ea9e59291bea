"""How gradients are clipped."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta
from tracker_adapters.values.checked_values import PositiveNumber, is_valid

from stability.config_checks import Checked, wrong
from stability.errors import StabilityConfigError

ClippingType: TypeAlias = Literal[
    "norm", "none", "value", "global_norm", "adaptive", "layer_wise", "percentile", "exponential", "agc"
]

_AboveOne: TypeAlias = Annotated[float, Meta(gt=1, description="a number above 1")]
FIELDS_OF_TYPE: dict[str, tuple[str, ...]] = {
    "norm": ("max_norm", "norm_type"),
    "value": ("clip_value", "norm_type"),
    "global_norm": ("max_norm",),
    "adaptive": ("adaptive_factor", "norm_type"),
    "layer_wise": ("layer_thresholds", "norm_type"),
    "percentile": ("percentile", "norm_type"),
    "exponential": ("exponential_factor", "exponential_decay", "exponential_floor", "norm_type"),
    "agc": ("agc_clip_factor", "agc_eps", "agc_exclude", "norm_type"),
}
"""Which fields a type reads; where nothing is clipped by a norm, ``norm_type`` is the one that is reported."""


@dataclass(frozen=True, kw_only=True)
class GradientClippingConfig(Checked):
    """How gradients are clipped.

    A field that the type does not read must be at its default: a bound that nobody applies is a mistake. Only
    ``"none"`` takes any, so that clipping can be switched off by this one field.

    Attributes:
        clipping_type: ``"norm"`` scales all gradients by one factor so that their total norm is at most
            ``max_norm``, exactly as ``torch.nn.utils.clip_grad_norm_`` does; ``"none"`` only measures; ``"value"``,
            ``"global_norm"``, ``"adaptive"``, ``"layer_wise"``, ``"percentile"``, ``"exponential"`` and ``"agc"`` are
            described in ``stability.clipping.clipper.make_clipper``.
        max_norm: The largest total norm, positive; infinity is allowed.
        norm_type: The order p of the norm, positive; infinity is the largest absolute value. With ``p <= 0`` a NaN
            would not show in the norm. ``"global_norm"`` is Euclidean.
        clip_value: For ``"value"``: the largest magnitude of an element, positive.
        adaptive_factor: For ``"adaptive"``: how many times the running mean a norm may be, above 1: norms enter the
            mean as clipped, and with 1 or less the threshold could only fall. 2.0 lets a healthy run pass, whose
            norms vary by tens of percent, and stops the spikes of a decade and more.
        layer_thresholds: For ``"layer_wise"``: the largest norm of each parameter's gradient, by the parameter's name
            or an ``fnmatch`` pattern. An exact name wins over patterns, and the first pattern over later ones; a
            parameter that nothing matches is not clipped. ``{"*": 1.0}`` clips each to 1.
        percentile: For ``"percentile"``: which percentile of all magnitudes is the largest that stays, above 0 and
            below 100. 99.0 clips one element in a hundred.
        exponential_factor: For ``"exponential"``: how many times the moving average a norm may be, above 1.
        exponential_decay: The weight of the past in the moving average, from 0 to below 1. 0.97 remembers about 33
            steps, as ZClip does (Kumar et al. 2025, arXiv:2504.02507).
        exponential_floor: The threshold never falls below it; not negative. 0.1 is a tenth of the customary bound of
            1: gradients so small do no harm.
        agc_clip_factor: For ``"agc"``: how large the norm of a unit's gradient may be, relative to that of its
            weights, positive. 0.01 is that of the paper (Brock et al. 2021, arXiv:2102.06171).
        agc_eps: The least norm of weights that it is compared with, positive, so that weights of zero can learn; 1e-3
            in the paper.
        agc_exclude: Names or ``fnmatch`` patterns of parameters that are not clipped; the paper leaves out the last
            linear layer.
    """

    clipping_type: ClippingType = "norm"
    max_norm: PositiveNumber = 1.0
    norm_type: PositiveNumber = 2.0
    clip_value: PositiveNumber = 1.0
    adaptive_factor: _AboveOne = 2.0
    layer_thresholds: Mapping[str, float] = field(default_factory=dict)
    percentile: Annotated[float, Meta(gt=0, lt=100, description="a number above 0 and below 100")] = 99.0
    exponential_factor: _AboveOne = 2.0
    exponential_decay: Annotated[float, Meta(ge=0, lt=1, description="a number from 0 to below 1")] = 0.97
    exponential_floor: Annotated[float, Meta(ge=0, description="a number of at least 0")] = 0.1
    agc_clip_factor: PositiveNumber = 0.01
    agc_eps: PositiveNumber = 1e-3
    agc_exclude: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "layer_thresholds", self._checked_thresholds())
        object.__setattr__(self, "agc_exclude", self._checked_names())
        self._check_fields_of_type()

    def _checked_thresholds(self) -> dict[str, float]:
        thresholds: Any = self.layer_thresholds
        if not isinstance(thresholds, Mapping):
            raise wrong(self, "layer_thresholds", "a mapping of names or patterns to numbers above 0")
        for name, bound in thresholds.items():
            if not isinstance(name, str) or not is_valid(bound, PositiveNumber):
                raise StabilityConfigError(
                    f"GradientClippingConfig: layer_thresholds holds {name!r}: {bound!r}; "
                    "expected a name or pattern with a number above 0"
                )
        if self.clipping_type == "layer_wise" and not thresholds:
            raise wrong(self, "layer_thresholds", "at least one entry, such as {'*': 1.0}")
        return dict(thresholds)

    def _checked_names(self) -> tuple[str, ...]:
        names: Any = self.agc_exclude
        if not isinstance(names, (tuple, list)) or not all(isinstance(name, str) for name in names):
            raise wrong(self, "agc_exclude", "a tuple of names or patterns")
        return tuple(names)

    def _check_fields_of_type(self) -> None:
        if self.clipping_type == "none":
            return
        read = FIELDS_OF_TYPE[self.clipping_type]
        for other in dataclasses.fields(self):
            name = other.name
            default = {} if name == "layer_thresholds" else other.default
            if name not in ("clipping_type", *read) and getattr(self, name) != default:
                raise StabilityConfigError(
                    f"GradientClippingConfig: {name} is {getattr(self, name)!r}, which the clipping type "
                    f"{self.clipping_type!r} does not use; expected {default!r}. It uses {', '.join(read)}"
                )
