"""Causes beside the numbers: memory, waiting for data, samples that influence each other."""

import numpy as np

from debuggers.diagnosis.argument import MODERATE, STRONG, Argument
from debuggers.diagnosis.data_waiting import data_waiting
from debuggers.diagnosis.evidence import Evidence

SLOPE_MB = 0.02
"""Growth in 2**20 bytes a step from which memory leaks, if it is steady."""
WAITS, MOSTLY_WAITS = 0.5, 0.7
"""Shares of a step in which it waits for data (stepscope's own choice); a busy machine may bring about the first."""
SHORTEST_MS, SHORTEST_EARLY_MS = 5.0, 20.0
"""Waiting for less than this a step is the loop's own overhead; while a training warms up, more than that."""


def memory_leak(evidence: Evidence) -> Argument:
    """Graphs of earlier steps are kept, or memory grows steadily after what the first steps allocate."""
    argument = Argument("memory_leak")
    for invariant in evidence.facts.invariants:
        if invariant.name == "graphs_freed" and invariant.broken >= 3 and 2 * invariant.broken > invariant.checked:
            argument.add(
                0.9,
                "the graphs of losses or outputs are kept for 10 steps and more, so that each step adds one",
                since=0,
            )
    for name, what, least in (
        ("device_mb", "memory on the device", 16),
        # The first steps fill the allocator's arenas, and buffers of what observes a training.
        ("process_mb", "the process's memory", 48),
    ):
        series = evidence[name].finite
        if len(series) < 12:
            continue
        late = series.since(int(series.steps[len(series) // 4]))
        growth = late.last - late.first
        span = int(late.steps[-1] - late.steps[0])
        rises = float(np.mean(np.diff(late.values) > 0))
        line = np.polyfit(late.steps, late.values, 1)
        spread = float(np.std(late.values - np.polyval(line, late.steps)))
        half = late.last - late.since(int(late.steps[0]) + span // 2).first
        goes_on = half > growth / 3  # steady growth has half of it in the second half of the steps
        if growth > least and growth / max(1, span) > SLOPE_MB and rises > 0.6 and growth > 6 * spread and goes_on:
            argument.add(
                STRONG,
                f"{what} grew by {growth:,.0f} MB in {span:,} steps, {growth / span:.2g} MB a step",
                since=int(late.steps[0]),
            )
    for found in evidence.found("memory_leak", "memory_growth"):
        argument.add(MODERATE, found.message, since=found.step, where=[found.name])
    argument.advice = (
        "Look for tensors with a graph that are kept: losses.append(loss) → losses.append(loss.item()) or "
        "loss.detach(), retain_graph=True, hidden states that are not detached."
    )
    return argument


def data_loading_bound(evidence: Evidence) -> Argument:
    """Most of the time of a typical step passes between its predecessor's end and its forward pass."""
    argument = Argument("data_loading_bound")
    waiting = data_waiting(evidence)
    if waiting is None:
        return argument
    step_ms = waiting.step_ms if np.isfinite(waiting.step_ms) else np.inf
    shortest_ms = SHORTEST_MS if waiting.is_settled else SHORTEST_EARLY_MS
    if waiting.share > WAITS and step_ms * waiting.share > shortest_ms:
        argument.add(
            0.5 if waiting.share < MOSTLY_WAITS else 0.85,
            f"{waiting.share:.0%} of a step of {step_ms:.3g} ms passes before its forward pass",
            since=waiting.since_step,
        )
    argument.advice = (
        "DataLoader(num_workers=4, pin_memory=True, persistent_workers=True, "
        "prefetch_factor=4); decode and resize once, "
        "not in each epoch."
    )
    return argument


SIZES = 2
"""Lengths of batches: that of all, and that of the last one of an epoch."""
OFTEN = 0.2
"""Share of rows that come again, from which they are samples."""


def batch_mixing(evidence: Evidence) -> Argument:
    """What a sample puts out depends on the others of its batch: a probe sees it, or an operator's dimensions tell.

    Sizes may be equal by chance in single batches, but seldom in the smaller one at an epoch's end, too.
    """
    argument = Argument("batch_mixing")
    probe = evidence.facts.probes.get("batch_mixing", {})
    if probe.get("mixed"):
        argument.add(0.9, str(probe.get("evidence", "an output depends on another sample of its batch")))
    for invariant in evidence.facts.invariants:
        if invariant.name == "samples_are_apart" and invariant.broken >= max(3, 0.8 * invariant.checked):
            argument.add(0.85, invariant.where, since=invariant.first_step)
        elif invariant.name == "first_is_batch" and invariant.broken >= max(3, 0.8 * invariant.checked):
            again = _rows_that_come_again(evidence)
            if again > OFTEN:
                argument.add(
                    0.85,
                    f"{invariant.where}; it is the batch: {again:.0%} of what stands along it comes again in later "
                    "batches as it was",
                    since=invariant.first_step,
                )
                argument.advice = "Pass batch_first=True to the layer, or transpose its inputs."
    argument.advice = argument.advice or "Look for view, reshape, transpose, softmax or mean over the first dimension."
    return argument


def _rows_that_come_again(evidence: Evidence) -> float:
    """The share of a late batch's rows that earlier batches had, without those that are equal within one, as padding.

    Along time, other samples stand side by side in each batch that is drawn. Not where a whole batch comes again, as
    pieces of long series do in each epoch, nor where their length changes from piece to piece.
    """
    again, equal, whole, size = (
        evidence[f"inputs/{name}"].finite for name in ("repeated_rows", "duplicates", "repeated", "batch_size")
    )
    of_new = ~np.isin(again.steps, whole.steps[whole.values > 0])
    late = again.values[of_new][-max(3, int(of_new.sum()) // 3) :]
    if len(late) < 3 or len(np.unique(size.values)) > SIZES:
        return 0.0
    return float(np.median(late)) - equal.late(3).median(0.0)
