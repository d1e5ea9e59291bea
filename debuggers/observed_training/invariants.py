"""What every sound training keeps to: how often it was checked and broken, and the findings of what is broken."""

from dataclasses import dataclass, field
from typing import Final

from debuggers.detectors import Finding
from debuggers.diagnosis.facts import InvariantFacts


@dataclass(frozen=True, slots=True)
class Invariant:
    """One invariant.

    Attributes:
        name: Its name; that of the finding when it is broken.
        meaning: What holds in a sound training.
        evidence: What is said when it does not.
        breaks: How often it must be broken for a finding; 0 for none, where sound trainings may have reasons.
        share: The share of the checks that must have broken it, besides.
    """

    name: str
    meaning: str
    evidence: str
    breaks: int = 0
    share: float = 0.5


INVARIANTS: Final = (
    Invariant(
        "gradients_zeroed",
        "between two steps of the optimizer its gradients are set to zero or None, or replaced",
        "gradients were not set to zero between two steps of the optimizer: each step used those of earlier ones too",
        breaks=3,
    ),
    Invariant(
        "backward_passes_are_used",
        "gradients of a backward pass are there at the next step, or the pass is another model's",
        "gradients of several batches were set to zero before each step, which used those of the last one alone: call "
        "zero_grad() before the first backward pass of a step, and not before each",
        breaks=10,
        share=0.9,
    ),
    Invariant(
        "step_changes_weights",
        "a step of the optimizer changes at least one parameter that has a gradient",
        "a step of the optimizer changed no sampled element of the parameters that have gradients",
        breaks=3,
    ),
    Invariant(
        "gradients_are_used",
        "gradients that backward passes fill are used by a step of the optimizer, or of another",
        "backward passes filled gradients over and over, the optimizer took no step, and no weight has changed",
        breaks=1,
    ),
    Invariant(
        "no_training_mode_in_validation",
        "no dropout or batch norm is in training mode where a validation calls the model",
        "a validation called the model while dropout or batch norm were in training mode; expected model.eval()",
        breaks=1,
    ),
    Invariant(
        "no_dropout_in_validation",
        "in evaluation mode no dropout is at work",
        "the model draws random numbers in evaluation mode, and has dropout that is no module: expected "
        "functional.dropout(x, p, self.training)",
        breaks=1,
    ),
    Invariant(
        "eval_mode_in_training",
        "a model with dropout or batch norm is in training mode at the steps of the optimizer",
        "the model took training steps in eval mode, without dropout, or with batch norm's running statistics; "
        "expected model.train()",
        breaks=10,
    ),
    Invariant(
        "gradients_in_optimizer",
        "every parameter that has a gradient belongs to an optimizer",
        "parameters have gradients and belong to no group of the optimizer",
    ),
    Invariant(
        "optimizer_gets_gradients",
        "every parameter of the optimizer requires a gradient and has had one",
        "parameters of the optimizer never had a gradient",
    ),
    Invariant(
        "samples_are_apart",
        "no softmax, attention, recurrence, running sum, length or reshape goes over the samples of a batch",
        "an operator of the model goes over the samples of a batch",
    ),
    Invariant(
        "batch_statistics_are_kept",
        "a model that divides features by their spread over the batch keeps such spreads for evaluation",
        "the model divides features by their spread over the batch, in evaluation too: it keeps no statistics",
    ),
    Invariant(
        "states_pass_gradients",
        "the state of a recurrence passes gradients back from some position to the one before",
        "the state of a recurrence is detached at each position: no gradient goes back to earlier ones",
    ),
    Invariant(
        "first_is_batch",
        "no attention or recurrence goes along the first of two dimensions for which a model has outputs",
        "an attention or recurrence goes along the first dimension, which may be time or the batch",
    ),
    Invariant(
        "weights_are_registered",
        "what a model multiplies with is among its parameters, or something else trains it",
        "the model multiplies with weights that are none of its parameters, and that nothing changes",
    ),
    Invariant(
        "layers_last",
        "the layers of a model are the same ones from step to step",
        "the model multiplies with parameters that are none of its own and new at each step",
    ),
    Invariant(
        "parameters_change_with_buffers",
        "where a batch norm's statistics follow the batches, its parameters are trained",
        "a batch norm with frozen parameters is in training mode, so that its statistics follow the batches",
    ),
    Invariant(
        "flags_are_of_parameters",
        "whether a module is trained is said by requires_grad_(), which sets what its parameters require",
        "requires_grad was assigned to a module, which freezes and trains nothing: expected "
        "module.requires_grad_(flag)",
        breaks=3,
        share=0.0,
    ),
    Invariant(
        "loss_exponentials_are_finite",
        "no exponential in a loss is infinite",
        "an exponential was infinite before the loss",
    ),
    Invariant(
        "graphs_freed",
        "the graph of a step's loss is gone some steps later",
        "graphs of losses or outputs of earlier steps are kept: each step adds one",
        breaks=3,
    ),
    Invariant(
        "activations_have_autocast_dtype",
        "under autocast some matrix product or convolution of the model runs in autocast's dtype",
        "autocast is on, and no matrix product or convolution that was looked at ran in its dtype",
    ),
    Invariant(
        "clipped_after_backward",
        "gradients are clipped between a backward pass and the optimizer's step",
        "gradients were clipped while no backward pass had come since the optimizer's last step: the limit met none of "
        "those that the next step uses",
        breaks=3,
        share=0.8,
    ),
    Invariant(
        "clipped_gradients_exist",
        "what the loop clips has gradients",
        "gradients were clipped of parameters that have none and are not the model's, as those of a frozen copy, or of "
        "no parameters at all, as from a generator that is used up",
        breaks=3,
        share=0.8,
    ),
    Invariant(
        "clipped_after_unscaling",
        "gradients are clipped without the loss scale of a GradScaler",
        "gradients were clipped while they still held the loss scale, so that the limit is smaller by that factor; "
        "expected scaler.unscale_(optimizer) before the clipping",
        breaks=1,
    ),
    Invariant(
        "micro_batch_size_constant",
        "all micro-batches of a step have one size",
        "micro-batches of one step had different sizes, though each counts the same in the gradient",
    ),
)
_BY_NAME = {invariant.name: invariant for invariant in INVARIANTS}


@dataclass(slots=True)
class _Checks:
    checked: int = 0
    broken: int = 0
    first_step: int | None = None
    last_step: int = 0
    last_broken: bool = False
    where: str = ""


@dataclass(slots=True)
class InvariantLog:
    """Counts the checks of each invariant."""

    _checks: dict[str, _Checks] = field(default_factory=dict)

    def check(self, name: str, step: int, *, broken: bool, where: str = "") -> None:
        """Enters a check of one of ``INVARIANTS``; ``where`` names what broke it, such as parameters."""
        assert name in _BY_NAME, name
        checks = self._checks.get(name)
        if checks is None:
            checks = self._checks[name] = _Checks()
        checks.checked += 1
        checks.last_broken = broken
        if broken:
            checks.broken += 1
            checks.last_step = step
            if checks.first_step is None:
                checks.first_step, checks.where = step, where

    def state(self, name: str, step: int, *, broken: bool, where: str = "") -> None:
        """Enters a check that takes the place of all earlier ones of its invariant, such as one over all steps."""
        before = self._checks.pop(name, _Checks())
        self.check(name, step, broken=broken, where=where)
        if broken and before.first_step is not None:
            self._checks[name].first_step = before.first_step

    def is_always_broken(self, name: str) -> bool:
        """Whether an invariant was checked, and broken each time."""
        checks = self._checks.get(name)
        return checks is not None and checks.broken == checks.checked

    def facts(self) -> tuple[InvariantFacts, ...]:
        """Returns the counts of those that were checked."""
        return tuple(
            InvariantFacts(
                name=name,
                checked=checks.checked,
                broken=checks.broken,
                first_step=checks.first_step,
                where=checks.where,
            )
            for name, checks in self._checks.items()
        )

    def findings(self) -> list[Finding]:
        """Returns a finding of level warning for each invariant that is broken often enough."""
        return [_finding(_BY_NAME[name], checks) for name, checks in self._checks.items() if _is_broken(name, checks)]


def _is_broken(name: str, checks: _Checks) -> bool:
    invariant = _BY_NAME[name]
    return 0 < invariant.breaks <= checks.broken and checks.broken >= invariant.share * checks.checked


def _finding(invariant: Invariant, checks: _Checks) -> Finding:
    assert checks.first_step is not None
    return Finding(
        kind=invariant.name,
        name=checks.where or "the training loop",
        level="warning",
        step=checks.first_step,
        last_step=checks.last_step,
        steps=checks.broken,
        ongoing=checks.last_broken,
        value=checks.broken / checks.checked,
        threshold=invariant.share,
        evidence=f"{invariant.evidence} ({checks.broken:,} of {checks.checked:,} checks)",
        rule=f"broken at least {invariant.breaks} times, and at {invariant.share:.0%} of the checks: "
        f"{invariant.meaning}",
    )
