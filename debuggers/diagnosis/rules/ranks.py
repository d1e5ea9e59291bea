"""Causes that only several ranks show together; the findings come from the comparison of their stores."""

from debuggers.diagnosis.argument import CERTAIN, MODERATE, STRONG, Argument
from debuggers.diagnosis.evidence import Evidence

_OUT_OF_STEP = ("gradients_not_synchronized", "weights_out_of_step")


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
