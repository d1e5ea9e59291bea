"""Names the gradients that are not finite, and tells a GradScaler's own overflow from a fault."""

import math
from collections import defaultdict

from tracker_adapters.wording import some_of

from debuggers.torch_import import torch
from stability.gradients.measure import Gradients, Norms
from stability.gradients.sharded import whole_sum
from stability.results.step import NaNStats, ParameterFault

NAMES_IN_MESSAGE = 10


@torch.no_grad()
def find_faults(model: torch.nn.Module, gradients: Gradients, norms: Norms) -> list[ParameterFault]:
    """Returns the parameters whose gradient holds NaN or infinities, in the model's order.

    Looks only at gradients with a non-finite norm, with one copy to the host for all; without such a gradient it
    does nothing. A finite gradient whose norm overflowed is not among the result.
    """
    suspects = [index for index, norm in enumerate(norms.each) if not math.isfinite(norm)]
    if not suspects:
        return []
    first_device = gradients.tensors[suspects[0]].device
    counts = torch.stack([count.to(first_device) for index in suspects for count in _counts(gradients, index)]).tolist()
    aliases = _aliases(model)
    return [
        ParameterFault(
            name=gradients.names[index],
            aliases=aliases[gradients.names[index]],
            nan=nan,
            inf=inf,
            elements=gradients.parameters[index].numel()
            if gradients.groups[index]
            else gradients.tensors[index].numel(),
        )
        for index, nan, inf in zip(suspects, counts[::2], counts[1::2], strict=True)
        if nan or inf
    ]


def describe_faults(faults: list[ParameterFault], total: int) -> str:
    """Returns one sentence that counts the faulty parameters and names the first ten, in the model's order.

    Args:
        faults: At least one.
        total: The number of gradients.
    """
    names = [
        f"{' = '.join([fault['name'], *fault['aliases']])} ({_counted(fault)} of {fault['elements']})"
        for fault in faults[:NAMES_IN_MESSAGE]
    ]
    rest = f" and {len(faults) - len(names)} more" if len(faults) > len(names) else ""
    return f"{len(faults)} of {total} gradients not finite: {', '.join(names)}{rest}"


def describe_handling(stats: NaNStats) -> str:
    """Returns where a fault was found and what was done about it, to follow a message; empty for nothing of both."""
    done = {
        "none": "",
        "replaced": "; replaced by finite numbers",
        "zeroed": "; these gradients were set to zero",
        "scaled": "; set to zero, and all gradients scaled down",
        "skipped": "; the optimizer's step is skipped",
        "restored": f"; training returns to step {stats['restored_step']}",
    }
    ranks = f" (rank {', '.join(map(str, stats['ranks']))})" if stats["ranks"] else ""
    return ranks + done[stats["action"]] + _describe_buffers(stats)


def _describe_buffers(stats: NaNStats) -> str:
    text = ""
    if reset := stats.get("buffers_reset"):
        text += f"; no state of {some_of(reset, NAMES_IN_MESSAGE)} was saved: non-finite values are reinitialised"
    if left := stats.get("buffers_left"):
        text += f"; {some_of(left, NAMES_IN_MESSAGE)} cannot be reset and are not finite"
    return text


def unscale(scaler: torch.amp.GradScaler | None, optimizer: torch.optim.Optimizer) -> bool:
    """Divides the optimizer's gradients by the scale, unless that was done since the last ``scaler.update``.

    Returns:
        Whether a GradScaler is at work, which will skip a step with non-finite gradients.
    """
    if scaler is None or not scaler.is_enabled():
        return False
    try:
        scaler.unscale_(optimizer)
    except RuntimeError as error:
        # The scaler tells only by this error that the caller has unscaled already.
        if "already been called" not in str(error):
            raise
    return True


def _counts(gradients: Gradients, index: int) -> tuple[torch.Tensor, torch.Tensor]:
    """How many elements are NaN and infinite: of a sharded gradient on all ranks, so that they find the same."""
    tensor, groups = gradients.tensors[index], gradients.groups[index]
    return whole_sum(tensor.isnan().sum(), groups), whole_sum(tensor.isinf().sum(), groups)


def _counted(fault: ParameterFault) -> str:
    return ", ".join(f"{number} {what}" for what, number in (("NaN", fault["nan"]), ("inf", fault["inf"])) if number)


def _aliases(model: torch.nn.Module) -> dict[str, list[str]]:
    first_names: dict[torch.nn.Parameter, str] = {}
    aliases: dict[str, list[str]] = defaultdict(list)
    for name, parameter in model.named_parameters(remove_duplicate=False):
        if parameter in first_names:
            aliases[first_names[parameter]].append(name)
        else:
            first_names[parameter] = name
    return aliases
