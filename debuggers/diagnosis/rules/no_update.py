"""A cause in the optimizer's steps: they change no weight."""

import numpy as np
from tracker_adapters.wording import some_of

from debuggers.diagnosis.argument import CERTAIN, MODERATE, STRONG, WEAK, Argument
from debuggers.diagnosis.derived.rates import learning_rates
from debuggers.diagnosis.derived.roles import nothing_is_trained, share_of, with_role
from debuggers.diagnosis.derived.updates import are_all_zero
from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.progress import LITTLE, Progress, progress_of

FEWEST = 5
"""Sampled steps from which it is known what steps change."""
ZEROED, FEWEST_ZEROED = 25, 2
"""Steps at the end of a training that had no gradient left, and sampled ones among them, from which it stays so."""
MOST, NEARLY_ALL = 0.75, 0.9
"""Shares of the weights of 16 bits that steps leave as they are: from the first on, the rest learns less; from the
second on, it is too few to learn with.

Small networks on scikit-learn's digits learn in bfloat16 what they learn in float32 where a step leaves up to 0.7 as
they are (SGD at 0.03: 0.92 and 0.93 of the baseline), and far less from 0.8 on (Adam at 1e-4: 0.13 and 0.74).
"""
LEARNT = 0.6
"""Part of the baseline that is learnt, above which what is rounded away is not missed: most is where all is learnt."""
HALF_A_STEP = 0.5
"""Part of a usual step that weights are from where they began, below which steps come to nothing: they are put back.

Steps of random directions come farther with each one, and those to and fro are once at a whole step.
"""
PUT_BACK = (
    "Look for what overwrites the weights after steps, such as load_state_dict, a copy of averaged weights, or a "
    "restored snapshot, and take it out of the loop."
)
"""The advice where steps do change weights, and the changes are gone later."""
NARROW = {"bfloat16": 512, "float16": 4096}
"""Dtypes of 16 bits, with the part of a number up to which a summand is sure to be rounded away.

It is half of the distance to the next number, at most 2**-8 of it in bfloat16 and 2**-11 in float16, and at least half
of that.
"""


def no_update(evidence: Evidence) -> Argument:
    """Optimizer steps change no weight although there are gradients."""
    argument = Argument("no_update")
    if any(one.name == "gradients_are_used" and one.broken for one in evidence.facts.invariants):
        argument.add(
            CERTAIN,
            "backward passes filled gradients over and over, and the optimizer never took a step: optimizer.step() is "
            "missing, never reached, or named without its parentheses",
            since=0,
        )
        argument.advice = "Call optimizer.step() after loss.backward(): with parentheses, where each epoch comes to it."
        return argument
    idle = [finding for finding in evidence.found("idle_optimizer") if finding.ongoing]
    if idle:
        for finding in idle:
            where = with_role(evidence, "unchanged")
            argument.add(CERTAIN, f"{finding.name}: {finding.evidence}", since=0, where=where)
        argument.advice = (
            "Call the step() of each optimizer after the backward pass, and give each a learning rate above 0."
        )
        return argument
    _add_movement(argument, evidence)
    broken = evidence.found("non_finite_gradient", "non_finite_loss", "non_finite_weight")
    if argument.cause is not None and broken:
        argument.against(STRONG, f"{broken[0].name} is not finite: nothing could be learnt")
    without = with_role(evidence, "without_gradient")
    passes = evidence.facts.loss is not None or bool(evidence["backward_passes"].finite.values.any())
    if without and nothing_is_trained(evidence, without) and passes and not _learns(evidence):
        argument.add(
            CERTAIN,
            "backward passes ran, and no parameter had a gradient at the optimizer's step: it was zeroed in between, "
            "the step comes before the backward pass, or the gradients belong to another model",
            since=0,
        )
        argument.advice = argument.advice or (
            "Call zero_grad() before the backward pass or after optimizer.step(), not between the two, and make the "
            "optimizer of the parameters of the model that computes the loss."
        )
    still = with_role(evidence, "unchanged")
    if argument.cause is None and still and share_of(evidence, still) > 0.5:
        argument.add(0.6, f"{some_of(still, 3)} never changed, though they have gradients", since=0, where=still)
    if argument.cause is not None:
        _add_circumstances(argument, evidence)
    if are_all_zero(evidence):
        argument.advice = (
            "Look for what makes the loss the same whatever the weights are; and for float16, in which gradients below "
            f"{np.finfo(np.float16).smallest_subnormal / 2:.0e} are zero: scale the loss, or use bfloat16."
        )
    argument.advice = argument.advice or (
        "Check that the optimizer holds the parameters of this model (not of a copy), that the learning rate is "
        "above 0, and keep float32 weights where updates are small."
    )
    return argument


def _learns(evidence: Evidence) -> bool:
    """Whether the loss falls though no parameter ever had a gradient at a step: then something changes weights.

    A loop may do it by hand, and set gradients to zero before it calls the session.
    """
    progress, roles = progress_of(evidence), {one.role for one in evidence.facts.parameters}
    return "trained" not in roles and progress is not None and not progress.failed and progress.learnt > LITTLE


def _add_movement(argument: Argument, evidence: Evidence) -> None:
    """Steps that change no sampled weight, or whose changes are put back."""
    ratio, alive = evidence["update_ratio"], evidence["total_norm/gradients"].finite
    has_gradient = alive.median() > 0
    # It stops by itself where it has converged: its steps then return at once. Of a table few rows are read.
    has_arrived = evidence.facts.optimizer == "LBFGS" and bool(ratio.values[:2].any())
    is_known = not has_arrived and "SparseAdam" not in evidence.facts.optimizer
    if len(ratio) >= FEWEST and has_gradient and is_known and float(np.mean(ratio.values == 0)) > 0.8:
        argument.add(
            CERTAIN,
            f"weights are unchanged after {np.sum(ratio.values == 0)} of {len(ratio)} sampled steps",
            since=int(ratio.steps[0]),
        )
    elif found := evidence.found("weights_stand_still"):
        argument.add(STRONG, found[0].message, since=0)
        typical = ratio.finite.median(0.0)
        if typical > 1e-5:
            argument.add(MODERATE, f"steps change weights by {typical:.1g} of their size, and something puts them back")
            argument.advice = PUT_BACK
        elif typical > 0:
            argument.against(MODERATE, "they change, by very little: see learning_rate_too_low")
    if argument.cause is None:
        _add_zeroed(argument, evidence)
    if argument.cause is None:
        _add_way(argument, evidence)
    if argument.cause is None:
        _add_rounding(argument, evidence)


def _add_zeroed(argument: Argument, evidence: Evidence) -> None:
    """Gradients that the loop sets to zero between the backward pass and the step, from some step on to the end."""
    norms, clipped, unclipped = (
        evidence[name].finite for name in ("total_norm/gradients", "clipped_norm", "unclipped_norm")
    )
    used = np.flatnonzero(norms.values)
    if not len(used) or len(norms) - 1 - used[-1] < ZEROED:
        return
    since = int(norms.steps[used[-1] + 1])
    left, before = clipped.values[clipped.steps >= since], unclipped.values[unclipped.steps >= since]
    if len(left) < FEWEST_ZEROED or left.any() or not before.all():
        return
    argument.add(
        0.6,
        f"from step {since} on the gradients are zero at each step, though those that the backward pass leaves are "
        f"not (their norm is {float(np.median(before)):.2g}): something sets them to zero in between",
        since=since,
    )
    argument.advice = (
        f"Look for what sets gradients to zero between the backward pass and the step from step {since} on, and call "
        "zero_grad() before the backward pass or after optimizer.step()."
    )


def _add_way(argument: Argument, evidence: Evidence) -> None:
    """Weights that never get as far as half of a single step takes them, while little is learnt."""
    ratio, farthest, progress = evidence["update_ratio"].finite, evidence.facts.farthest, progress_of(evidence)
    if not farthest or len(ratio) < FEWEST or progress is None or progress.failed or progress.learnt > LITTLE:
        return
    usual = float(np.quantile(ratio.values, 0.25))
    if farthest < HALF_A_STEP * usual:
        argument.add(
            CERTAIN,
            f"a step changes weights by {usual:.2g} of their size and more, and whenever it was looked, all steps "
            f"together had changed them by {farthest:.2g} at most: something puts them back",
            since=int(ratio.steps[0]),
        )
        argument.advice = PUT_BACK


def _add_rounding(argument: Argument, evidence: Evidence) -> None:
    """Weights of 16 bits that steps leave as they are, most of them, while not much is learnt."""
    rounded, progress = evidence["rounded_away"].finite, progress_of(evidence)
    share = rounded.median(0.0)
    if len(rounded) < FEWEST or share < MOST or progress is None or progress.failed or progress.learnt > LEARNT:
        return
    narrow = next((one.dtype for one in evidence.facts.parameters if one.dtype in NARROW), "16 bits")
    argument.add(
        _weight_of_rounding(share, progress),
        f"a step leaves {share:.0%} of the weights in {narrow} as they are, though they have gradients: what is "
        f"smaller than a part in {NARROW.get(narrow, 512)} of a weight is rounded away",
        since=int(rounded.steps[0]),
    )
    argument.advice = (
        f"Keep float32 weights: let torch.autocast compute in {narrow}, in place of a model that is in it."
    )


def _weight_of_rounding(share: float, progress: Progress) -> float:
    """How sure it is, before what the narrow dtype adds, that rounding is what keeps the loss up."""
    if progress.learnt > LITTLE:
        return MODERATE
    return CERTAIN if share >= NEARLY_ALL and not progress.falls_late else STRONG


def _add_circumstances(argument: Argument, evidence: Evidence) -> None:
    """What goes with steps that change nothing."""
    if are_all_zero(evidence):
        argument.add(0.0, "all gradients are zero, at each step")
    for finding in evidence.found("skipped_steps"):
        argument.add(0.0, finding.evidence)
    narrow = [one for one in evidence.facts.parameters if one.dtype in NARROW]
    if narrow:
        argument.add(WEAK, f"{narrow[0].name} is {narrow[0].dtype}: small updates are rounded away")
    rates = learning_rates(evidence)
    if len(rates) and float(rates.values.max()) == 0:
        argument.add(WEAK, "the learning rate is 0")
