"""Names of the series that describe a group of tensors, such as all gradients.

A statistic of each tensor is ``<statistic>/<tensor>``, so that viewers show it for all tensors in one section:
``gradient_norm/fc1.weight``, ``update_ratio/fc1.weight``, ``activation_zero_fraction/relu``. The norm of all tensors
together is ``total_norm/<group>``, such as ``total_norm/gradients``. Histograms are ``<group>/<tensor>``.
"""

from functools import lru_cache


@lru_cache(maxsize=256)
def statistic_names(group: str, statistic: str, tensors: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the names of a statistic, one for each tensor; the same tuple for the same arguments.

    Args:
        group: What the tensors are, in the plural: ``gradients``, or a path such as ``optimizer/exp_avg``.
        statistic: Such as ``norm``.
        tensors: Their names.
    """
    kind = group.replace("/", "_") if "/" in group else group.removesuffix("s")
    return tuple(f"{kind}_{statistic}/{tensor}" for tensor in tensors)


@lru_cache(maxsize=256)
def histogram_names(group: str, tensors: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the names of histograms, one for each tensor; the same tuple for the same arguments."""
    return tuple(f"{group}/{tensor}" for tensor in tensors)


@lru_cache(maxsize=256)
def norm_names(group: str, tensors: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the names of the norms of each tensor, and at the end of the norm of all of them."""
    return (*statistic_names(group, "norm", tensors), f"total_norm/{group}")
