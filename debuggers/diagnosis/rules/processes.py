"""Causes in a training's processes: memory, waiting for data, and what only several ranks show together.

The findings of ranks come from the comparison of their stores.
"""

import numpy as np

from debuggers.diagnosis.argument import CERTAIN, MODERATE, STRONG, Argument
from debuggers.diagnosis.data_waiting import data_waiting
from debuggers.diagnosis.evidence import Evidence

SLOPE_MB = 0.02
"""Growth in 2**20 bytes a step from which memory leaks, if it is steady."""
WAITS, MOSTLY_WAITS = 0.5, 0.7
"""Shares of a step in which it waits for data (stepscope's own choice); a busy machine may bring about the first."""
SHORTEST_MS, SHORTEST_EARLY_MS = 5.0, 20.0
"""Waiting for less than this a step is the loop's own overhead; while a training warms up, more than that."""
_OUT_OF_STEP = ("gradients_not_synchronized", "weights_out_of_step")


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


def rank_desync(evidence: Evidence) -> Argument:
    """Copies of the weights on several ranks were equal and part: gradients or weights differ to the bit."""
    argument = Argument("rank_desync")
    found = evidence.found(*_OUT_OF_STEP)
    for one in found:
        argument.add(CERTAIN, one.evidence, since=one.step, where=[one.name])
    for one in evidence.found("configuration_differs") if found else ():
        argument.add(MODERATE, f"{one.name}: {one.evidence}")
    for invariant in evidence.facts.invariants:
        if invariant.name == "replicas_equal" and invariant.broken and not found:
            argument.add(CERTAIN, f"the ranks' weights differ: {invariant.where}", since=invariant.first_step)
    unsynchronized = any(one.kind == _OUT_OF_STEP[0] for one in found)
    argument.advice = (
        "Call the DistributedDataParallel wrapper itself, not its .module, and leave no_sync() before the last "
        "backward pass of a step."
        if unsynchronized
        else "Change weights only in the optimizer, with the same learning rate on all ranks; load the same checkpoint "
        "and seed on all of them before DistributedDataParallel is made."
    )
    return argument


def non_finite_rank(evidence: Evidence) -> Argument:
    """The loss of some ranks is NaN or infinite first, and averaging hands it on to all."""
    argument = Argument("non_finite_rank")
    for found in evidence.found("non_finite_rank"):
        argument.add(CERTAIN, found.evidence, since=found.step, where=[found.name])
    argument.advice = (
        "Look at the batch that this rank had at that step, and at its data files; stepscope diagnose and report show "
        "the rank's own report. NaNHandlingConfig(handling_type='skip') skips such a step on all ranks alike."
    )
    return argument


def straggling_rank(evidence: Evidence) -> Argument:
    """A rank takes longer for a step, not counting what it waits for others: all ranks train at its speed."""
    argument = Argument("straggling_rank")
    for found in evidence.found("straggling_rank"):
        argument.add(STRONG, f"{found.name}: {found.evidence}", since=found.step, where=[found.name])
    argument.advice = (
        "Compare the rank's data_ms with the others': if it is larger, its data loading is slow; else its processor or "
        "device is busy, throttled or shared."
    )
    return argument


def hung_rank(evidence: Evidence) -> Argument:
    """A rank has stopped, or never started, and the others wait for it."""
    argument = Argument("hung_rank")
    for found in evidence.found("hung_rank", "missing_rank"):
        argument.add(CERTAIN, found.evidence, since=found.step, where=[found.name])
    argument.advice = (
        "Look at the stack of each rank (the text stepscope/stack) and at its log; TORCH_FR_BUFFER_SIZE=2000 adds the "
        "Flight Recorder's list of collectives, as a file of each rank."
    )
    return argument


def ranks_configured_differently(evidence: Evidence) -> Argument:
    """Ranks that train one model have different settings, though their weights have not parted."""
    argument = Argument("ranks_configured_differently")
    weight = MODERATE if evidence.found(*_OUT_OF_STEP) else CERTAIN
    for found in evidence.found("configuration_differs"):
        argument.add(weight, f"{found.name}: {found.evidence}", since=found.step, where=[found.name])
    argument.advice = "Read the configuration once, on rank 0, and broadcast it, or pass all ranks the same file."
    return argument
