"""Runs all probes of a batch, and leaves no trace."""

from collections.abc import Callable
from typing import Any

from debuggers.diagnosis.facts import LossFacts
from debuggers.instrumentation.isolation import describe
from debuggers.instrumentation.model_replay import plain_model, run_aside
from debuggers.instrumentation.random_state import RandomStates
from debuggers.probes.batch import ProbedBatch
from debuggers.probes.copies import TrainingCopy
from debuggers.probes.fitting import fit_one_batch, learning_rate
from debuggers.probes.loss_comparisons import initial_loss, modes, zeroed_inputs
from debuggers.probes.mixing import batch_mixing
from debuggers.probes.report import ProbeReport
from debuggers.torch_import import torch

MAX_REASON = 300


def run_probes(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer | None,
    batch: ProbedBatch,
    *,
    kind: str = "",
    steps: int = 60,
    last_step: int = -1,
    taken: int = 0,
) -> ProbeReport:
    """Runs the probes, each on a deep copy of its own; what fails is told in the report.

    Args:
        model: May be wrapped or compiled.
        optimizer: What two of the probes train with; None leaves them out.
        batch: See there.
        kind: Of the loss, as in ``LossFacts``.
        steps: Of each of the two probes that train.
        last_step: Its number.
        taken: How many steps the training has taken.
    """
    report = ProbeReport(step=last_step)
    plain = plain_model(model)
    found = RandomStates.now()

    def probe(name: str, work: Callable[[], dict[str, Any]]) -> None:
        found.put_back()
        try:
            report.results[name] = run_aside(plain, work, gradients=True)
        except Exception as error:
            report.failures[name] = " ".join(describe(error).split())[:MAX_REASON]

    def copied() -> torch.nn.Module:
        return TrainingCopy(plain).model

    try:
        probe("fit_one_batch", lambda: fit_one_batch(batch, _trained(plain, optimizer), steps))
        probe("zeroed_inputs", lambda: zeroed_inputs(batch, copied()))
        probe("batch_mixing", lambda: batch_mixing(batch, copied()))
        probe("modes", lambda: modes(batch, copied()))
        probe("learning_rate", lambda: learning_rate(batch, _trained(plain, optimizer), steps))
        probe("initial_loss", lambda: initial_loss(batch, copied(), kind, taken))
    finally:
        found.put_back()
    return report


def _trained(model: torch.nn.Module, optimizer: torch.optim.Optimizer | None) -> TrainingCopy:
    if optimizer is None:
        raise ValueError("the session has no optimizer")
    copy = TrainingCopy(model, optimizer)
    if not any(module.training for module in model.modules()):
        copy.model.train()
    return copy


def kind_of(loss: object, facts: LossFacts | None) -> str:
    """Returns the kind of a loss by the name of its function or class, else what facts say."""
    names = {"CrossEntropyLoss": "cross_entropy", "cross_entropy": "cross_entropy"}
    names |= {"NLLLoss": "nll", "nll_loss": "nll", "MSELoss": "mse", "mse_loss": "mse"}
    names |= {"BCELoss": "bce", "binary_cross_entropy": "bce", "BCEWithLogitsLoss": "bce_with_logits"}
    names |= {"binary_cross_entropy_with_logits": "bce_with_logits"}
    name = getattr(loss, "__name__", type(loss).__name__)
    return names.get(name, "" if facts is None else facts.kind)
