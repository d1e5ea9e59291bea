"""The two cheap health levels: is anything NaN or infinite, and how much of it. One pass over the elements."""

from collections.abc import Iterable

from debuggers.measurement.plain_values import pieces, plain_values
from debuggers.torch_import import torch

_READ_AS_THEY_ARE = frozenset({torch.float32, torch.float64, torch.float16, torch.bfloat16})


@torch.no_grad()
def any_non_finite(name: str, tensor: torch.Tensor) -> torch.Tensor:
    """Returns whether any element is NaN or infinite: int64 (1,), on the tensor's device, which nothing waits for.

    From the extremes: NaN propagates to them, and an infinity is one.

    Raises:
        ArtifactError: For what ``measure`` refuses; ``name`` is the tensor's in the message.
    """
    flat, parts = _parts(name, tensor)
    found = [~torch.isfinite(torch.stack(torch.aminmax(part))).all() for part in parts]
    return torch.stack(found).any().long().reshape(1) if found else flat.new_zeros(1, dtype=torch.int64)


@torch.no_grad()
def non_finite_counts(name: str, tensor: torch.Tensor) -> torch.Tensor:
    """Returns how many elements are NaN, +inf and -inf: int64 (3,), on the tensor's device, which nothing waits for.

    Raises:
        ArtifactError: See ``any_non_finite``.
    """
    flat, parts = _parts(name, tensor)
    counts = flat.new_zeros(3, dtype=torch.int64)
    for part in parts:
        # On the host the answer is at hand, and nearly always there is nothing to count.
        if part.is_cpu and bool(torch.isfinite(torch.stack(torch.aminmax(part))).all()):
            continue
        counts = counts + torch.stack([part.isnan().sum(), part.isposinf().sum(), part.isneginf().sum()])
    return counts


def _parts(name: str, tensor: torch.Tensor) -> tuple[torch.Tensor, Iterable[torch.Tensor]]:
    """All values in one dimension, and those among them that can be NaN or infinite, at least one in each part."""
    flat, _ = plain_values(name, tensor)
    if not flat.numel() or not (flat.is_floating_point() or flat.is_complex()):
        return flat, ()
    return flat, (flat,) if flat.dtype in _READ_AS_THEY_ARE else pieces(name, flat)
