"""Units that compute the same: rows of a weight that equal each other."""

from collections.abc import Mapping

from debuggers.instrumentation.quiet_computation import quiet_computation
from debuggers.signals.sampling import row_hashes, usable
from debuggers.torch_import import torch

MOST_ROWS, MOST_COLUMNS, COMPARED = 1024, 4096, 32
FEWER = 16
"""Of so many of these elements one is compared first."""
MOST_WEIGHTS = 200


def unit_similarities(parameters: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor | float]:
    """Returns for each weight of 2 to 1,024 rows the share of rows that equal another one, at most 200 weights.

    Rows of at most 4,096 elements are compared, by the bits of at most 32 of them, evenly spread. A row whose elements
    are zero there and not elsewhere, as most are in an identity, equals no other.
    """
    samples: dict[str, torch.Tensor] = {}
    with quiet_computation("cpu"):
        for name, parameter in parameters.items():
            if parameter.ndim < 2 or not 1 < parameter.shape[0] <= MOST_ROWS:
                continue
            values = usable(parameter)
            if values is None or not values.is_floating_point() or values.ndim < 2:
                continue
            rows = values.shape[0]
            if not rows > 1 or values.numel() // rows > MOST_COLUMNS or len(samples) >= MOST_WEIGHTS:
                continue
            samples[name] = values.flatten(1) if values.ndim > 2 else values
        alike: dict[tuple[object, ...], list[str]] = {}
        for name, sample in samples.items():
            alike.setdefault((sample.shape, sample.dtype, sample.device), []).append(name)
        shares: dict[str, torch.Tensor | float] = {}
        for names in alike.values():
            together = _shares_of_twins([samples[name] for name in names])
            shares.update(zip(names, together.unbind(), strict=True))
    return {name: shares[name] for name in samples}


def _shares_of_twins(samples: list[torch.Tensor]) -> torch.Tensor:
    """The share of rows that equal another one, in each of several samples of one shape."""
    if not samples[0].is_cpu:
        return _shares_by_all(samples)
    # Where no two rows share a few of these elements, as in most layers, none are the same.
    few = _hashes(samples, FEWER).sort().values
    shares = torch.zeros(len(samples), dtype=torch.float64)
    places = (few[:, 1:] == few[:, :-1]).any(1).nonzero().squeeze(1)
    if len(places):
        shares[places] = _shares_by_all([samples[place] for place in places.tolist()])
    return shares


def _shares_by_all(samples: list[torch.Tensor]) -> torch.Tensor:
    """The same, by all elements of a row that are compared."""
    hashes = _hashes(samples, 1)
    own = torch.arange(hashes.shape[1], device=hashes.device)
    ordered = torch.where(_are_unseen(samples), own, hashes).sort().values
    same = ordered[:, 1:] == ordered[:, :-1]
    twins = torch.zeros_like(ordered, dtype=torch.bool)
    twins[:, 1:] |= same
    twins[:, :-1] |= same
    return twins.double().mean(1)


def _hashes(samples: list[torch.Tensor], fewer: int) -> torch.Tensor:
    """Hashes (samples, rows) of at most 32 elements of each row, or of one in so many of them."""
    chosen = torch.cat([one[:, :: _stride(one) * fewer] for one in samples])
    return row_hashes(chosen).view(len(samples), -1)


def _are_unseen(samples: list[torch.Tensor]) -> torch.Tensor:
    """Which rows (samples, rows) are zero where they are looked at, and not zero elsewhere."""
    rows = [one.ne(0).any(1) & one[:, :: _stride(one)].eq(0).all(1) for one in samples]
    return torch.stack(rows)


def _stride(sample: torch.Tensor) -> int:
    """From one element to the next that is looked at; odd, because columns often alternate."""
    stride = -(-sample.shape[1] // COMPARED)
    return stride + (stride % 2 == 0)
