"""Samples show the elements that slices along both dimensions show."""

import pytest
import torch

from debuggers.signals.sampling import sampled_rows


def by_slices(values, elements, rows):
    kept = max(rows, elements // max(1, values.numel() // len(values)))
    if len(values) > kept:
        values = values[:: -(-len(values) // kept)]
    flat = values.reshape(len(values), -1)
    stride = -(-flat.numel() // elements)
    return flat if stride <= 1 else flat[:, :: stride + (stride % 2 == 0)]


@pytest.mark.parametrize("shape", [(1,), (700,), (5, 3), (300, 40), (40, 300), (33, 7, 9), (6, 5, 8, 3), (1, 5000)])
@pytest.mark.parametrize("elements, rows", [(1 << 16, 256), (1000, 16), (100, 4), (1, 1)])
@pytest.mark.parametrize("is_contiguous", [True, False])
def test_a_sample_has_the_elements_of_slices(shape, elements, rows, is_contiguous):
    values = torch.randn(*shape, 2)
    values = values[..., 0].contiguous() if is_contiguous else values[..., 0]
    sample = sampled_rows(values, elements, rows)
    assert sample.ndim == 2
    assert torch.equal(sample, by_slices(values, elements, rows))


def test_a_sample_of_a_part_begins_where_the_part_does():
    values = torch.arange(2000.0).view(100, 20)[50:]
    assert torch.equal(sampled_rows(values, 100, 4), by_slices(values, 100, 4))


def test_a_number_is_one_row():
    assert sampled_rows(torch.tensor(3.0)).tolist() == [[3.0]]
