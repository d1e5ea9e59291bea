"""How gradients are clipped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from stability.config_checks import Checked, check_choice, check_positive

ClippingType: TypeAlias = Literal["norm", "none"]


@dataclass(frozen=True, kw_only=True)
class GradientClippingConfig(Checked):
    """How gradients are clipped.

    Attributes:
        clipping_type: ``"norm"`` scales all gradients by one factor so that their total norm is at most
            ``max_norm``, exactly as ``torch.nn.utils.clip_grad_norm_`` does; ``"none"`` only measures.
        max_norm: The largest total norm, positive; infinity is allowed.
        norm_type: The order p of the norm, positive; infinity is the largest absolute value. With ``p <= 0`` a NaN
            would not show in the norm.
    """

    clipping_type: ClippingType = "norm"
    max_norm: float = 1.0
    norm_type: float = 2.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self, "clipping_type", get_args(ClippingType))
        check_positive(self, "max_norm")
        check_positive(self, "norm_type")
