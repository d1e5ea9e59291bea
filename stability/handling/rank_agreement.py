"""Lets the ranks of a data-parallel training decide the same: a step that only one of them skips hangs the job."""

from typing import NamedTuple

from debuggers.torch_import import torch


class Verdict(NamedTuple):
    """What one rank found at a step."""

    loss_finite: bool
    faulty: int
    """Gradient elements that are not finite."""
    elements: int
    """Gradient elements in all; any positive number when none is faulty."""
    scaler_step: bool
    """The faults are an overflow under the GradScaler, which skips the step by itself."""

    @property
    def good(self) -> bool:
        """Whether loss and gradients are finite."""
        return self.loss_finite and not self.faulty


def gather_verdicts(verdict: Verdict, device: torch.device) -> list[Verdict]:
    """Returns the verdicts of all ranks, in their order; without other ranks only this one, without communication.

    One collective of four numbers over the default process group, in which every rank has to take part.

    Args:
        verdict: What this rank found.
        device: Where its gradients are: what a backend for devices alone, such as NCCL, communicates from. Where the
            backend takes host tensors, no device is involved.
    """
    distributed = torch.distributed
    if not (distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1):
        return [verdict]
    on_host = "cpu:" in str(distributed.get_backend_config())
    own = torch.tensor([float(value) for value in verdict], dtype=torch.float64, device="cpu" if on_host else device)
    gathered = [torch.empty_like(own) for _ in range(distributed.get_world_size())]
    distributed.all_gather(gathered, own)
    return [
        Verdict(bool(loss_finite), int(faulty), int(elements), bool(scaler_step))
        for loss_finite, faulty, elements, scaler_step in torch.stack(gathered).tolist()
    ]


def is_at_fault(ranks: list[int]) -> bool:
    """Whether this rank is among those at fault; where the ranks have agreed on none, each answers for itself."""
    return not ranks or torch.distributed.get_rank() in ranks


def ranks_at_fault(verdicts: list[Verdict]) -> list[int]:
    """Returns the ranks whose loss is not finite; where all are, those with gradients that are not.

    DistributedDataParallel has averaged the gradients by then, so that a fault of one is in those of all. A loss is a
    rank's own.
    """
    losses = [rank for rank, verdict in enumerate(verdicts) if not verdict.loss_finite]
    return losses or [rank for rank, verdict in enumerate(verdicts) if not verdict.good]
