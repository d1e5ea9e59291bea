"""A cause: what is wrong, how sure that is, what speaks for and against it, and what to try."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

TITLES: Final[Mapping[str, str]] = {
    "learning_rate_too_high": "the learning rate is too high",
    "learning_rate_too_low": "the learning rate is too low",
    "vanishing_gradients": "gradients vanish on the way to the first layers",
    "exploding_gradients": "gradients explode",
    "dead_units": "units are dead: they put out zero for every input",
    "saturated_units": "units are saturated: their activation is flat where they work",
    "poor_initialization": "the weights start at a wrong scale",
    "unbroken_symmetry": "units start equal and stay equal",
    "inputs_not_normalized": "the inputs are not normalised",
    "inputs_constant": "the inputs are constant",
    "non_finite_inputs": "the inputs hold NaN or infinities",
    "target_out_of_range": "the outputs cannot reach the targets",
    "wrong_output_or_loss": "the loss does not fit the model's output",
    "shape_broadcast": "outputs and targets differ in shape and are broadcast",
    "labels_unrelated": "the targets have nothing to do with the inputs",
    "single_class_labels": "all targets are of one class",
    "flipped_loss_sign": "the loss has the wrong sign",
    "loss_sum_not_mean": "the loss is a sum where a mean is expected",
    "over_regularized": "regularisation outweighs the loss",
    "overfitting": "the model overfits",
    "class_imbalance": "one class outweighs the others",
    "unshuffled_data": "the data is not shuffled",
    "duplicated_data": "the same data comes again and again",
    "batch_mixing": "samples of one batch influence each other",
    "gradients_not_zeroed": "gradients are zeroed at the wrong place, or never",
    "frozen_parameters": "parameters are frozen",
    "parameters_not_in_optimizer": "parameters are in no group of the optimizer",
    "detached_parameters": "parameters are cut off from the loss",
    "no_update": "steps change no weights",
    "wrong_mode": "the model is in the wrong mode",
    "non_finite_forward": "a NaN or infinity arises in the forward pass",
    "non_finite_backward": "a NaN or infinity arises in the backward pass",
    "fp16_underflow": "gradients underflow in float16",
    "clipping_ineffective": "clipping of gradients has no effect",
    "clipping_too_strong": "clipping takes nearly all of the gradients",
    "accumulation_not_averaged": "accumulated gradients are summed, not averaged",
    "schedule_collapsed": "the schedule has brought the learning rate to nearly zero",
    "missing_warmup": "the first steps are too large: warm-up is missing",
    "stopped_too_early": "training ended while the loss still fell",
    "rank_desync": "the ranks' weights differ",
    "non_finite_rank": "a NaN or infinity comes from one rank",
    "hung_rank": "a rank has stopped, and the others wait for it",
    "straggling_rank": "a rank is slower than the others",
    "ranks_configured_differently": "the ranks are configured differently",
    "memory_leak": "memory grows step by step",
    "data_loading_bound": "training waits for data",
}
"""The vocabulary of causes: each code with its title."""
LIKELY: Final = 0.5
"""Confidence above which a cause is likelier than not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One cause.

    Attributes:
        code: From ``TITLES``.
        confidence: From 0 to 1: how sure it is that this is a cause, after what speaks against it.
        since_step: The first step at which it shows; None if that cannot be told.
        where: Names of parameters, layers, or parts of the loop; may be empty.
        evidence: What speaks for it, one sentence each, with numbers and steps.
        against: What speaks against it, or would tell it from the runner-up.
        advice: What to do, with numbers.
    """

    code: str
    confidence: float
    since_step: int | None = None
    where: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    against: tuple[str, ...] = ()
    advice: str = ""

    def __post_init__(self) -> None:
        assert self.code in TITLES, self.code

    @property
    def title(self) -> str:
        """The cause in a few words."""
        return TITLES[self.code]

    @property
    def is_likely(self) -> bool:
        """Whether it is likelier than not; if not, it is named beside one that is, as its consequence or as a doubt."""
        return self.confidence > LIKELY

    def __str__(self) -> str:
        """The cause in one sentence."""
        since = "" if self.since_step is None else f", since step {self.since_step}"
        return f"{self.title}{since} ({self.code}, {self.confidence:.0%})"

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields and the title."""
        return {"title": self.title, **asdict(self)}
