"""Samples of layers are described with the same bits by the compiled code and by NumPy."""

import numpy as np
import pytest
import torch
from tracker_adapters.native.extension import kernels, why_not

from debuggers.signals.layer_statistics import (
    STATISTICS,
    as_arrays,
    dead_share,
    groups_of_one_shape,
    statistics_of,
    statistics_on_host,
)

SHAPES = [(1, 1), (1, 9), (9, 1), (2, 3), (3, 2), (32, 64), (64, 250), (256, 57), (16384, 1), (7, 1000)]


@pytest.fixture
def samples():
    generator = torch.Generator().manual_seed(0)
    made = {}
    for number, (rows, columns) in enumerate(SHAPES):
        for dtype in (torch.float32, torch.float64, torch.bfloat16):
            values = torch.randn(rows, columns, generator=generator, dtype=torch.float64) * 10.0 ** (number - 4) + 1
            values[values < 1] = 0
            made[f"{rows}x{columns} {dtype}"] = values.to(dtype)
    made["nan"] = torch.tensor([[1.0, float("nan")], [0.0, 2.0]])
    made["infinite"] = torch.tensor([[1.0, float("inf")], [0.0, 2.0]])
    return made


@pytest.mark.skipif(kernels() is None, reason=why_not())
def test_the_compiled_code_finds_what_numpy_finds(samples):
    found = statistics_on_host(samples)
    expected = {statistic: {} for statistic in STATISTICS}
    for names in groups_of_one_shape(samples):
        for statistic, values in statistics_of(as_arrays([samples[name] for name in names])).items():
            expected[statistic].update(zip(names, values.tolist(), strict=True))
    assert found.keys() == expected.keys()
    for statistic, values in expected.items():
        assert found[statistic].keys() == values.keys()
        np.testing.assert_array_equal([found[statistic][name] for name in values], list(values.values()), statistic)


def test_statistics_are_those_of_their_definitions():
    sample = torch.tensor([[0.0, 2.0, 4.0], [4.0, 0.0, 8.0]])
    found = statistics_on_host({"layer": sample, "row": sample[:1], "one": sample[:1, :1]})
    assert found["output_zeros"] == {"layer": 1 / 3, "row": 1 / 3, "one": 1.0}
    assert found["output_mean"] == {"layer": 3.0, "row": 2.0, "one": 0.0}
    assert found["output_std"] == pytest.approx({"layer": (46 / 6) ** 0.5, "row": (8 / 3) ** 0.5})
    assert found["output_batch_std"] == pytest.approx({"layer": (2 + 1 + 2) / 3})


@pytest.mark.parametrize("shape", [(40,), (6, 5), (2000, 40), (700, 9, 12), (40, 30, 12, 11), (3, 40000)])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.6, 1.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_dead_units_have_no_positive_element(shape, share, dtype):
    torch.manual_seed(1)
    units = 1 if len(shape) >= 4 else len(shape) - 1
    across = [1] * len(shape)
    across[units] = shape[units]
    values = torch.where(torch.rand(across) < share, -1.0, torch.randn(shape)).to(dtype)
    alive = (values > 0).movedim(units, 0).reshape(shape[units], -1).any(1)
    assert float(dead_share(values)) == float((~alive).double().mean())


@pytest.mark.parametrize("row", [0, -1])
@pytest.mark.parametrize("element", [1.0, float("nan"), float("inf")])
def test_one_positive_element_keeps_a_unit_alive_wherever_it_is(row, element):
    values = torch.zeros(5000, 40)
    values[row, 3] = element
    assert float(dead_share(values)) == 39 / 40
    values[0, 4:] = 1.0  # few units are left to be looked at
    assert float(dead_share(values)) == 3 / 40
