"""Differences are measured in any layout, without rounding to a narrow dtype, and in memory that is kept."""

import re
from pathlib import Path

import pytest
import torch

import debuggers
from debuggers.measurement.measure import Difference, measure


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.uint8, torch.bool])
def test_a_difference_of_narrow_dtypes_is_not_rounded_to_them(dtype):
    generator = torch.Generator().manual_seed(0)
    after, before = (torch.randint(0, 2, (3, 500), generator=generator).to(dtype) for _ in range(2))
    if dtype.is_floating_point:
        after, before = after + torch.randn(3, 500, generator=generator).to(dtype), before * 3.14159
    exact = after.double() - before.double()
    [summary] = measure([Difference(after, before)]).resolve()
    assert summary.l1 == pytest.approx(exact.abs().sum().item(), rel=1e-7)
    assert summary.min == pytest.approx(exact.min().item(), rel=1e-7)


LAYOUTS = {
    "strided": lambda values: (values[:, ::2], values[:, 1::2]),
    "lie unlike": lambda values: (values[:, :20], values[:, 20:].t().contiguous().t()),
    "other memory format": lambda values: (
        values.reshape(30, 2, 2, 10).to(memory_format=torch.channels_last), values.reshape(30, 2, 2, 10).flip(0)
    ),
    "transposed": lambda values: (values[:, :20].t().contiguous().t(), values[:, 20:].t().contiguous().t()),
    "transposed halves": lambda values: (values.half().t(), values.half().t().flip(0)),
    "expanded": lambda values: (values[:1].expand(30, 40), values),
    "converted before": lambda values: (values, values.double().flip(0)),
    "converted after": lambda values: (values.double(), values.flip(0)),
    "sparse": lambda values: (values.relu().to_sparse(), values.flip(0).relu().to_sparse()),
    "negated": lambda values: (torch.complex(values, values).conj().imag, values),
}  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
def test_differences_of_any_layout_are_measured_in_their_own_memory(layout):
    # Several of one size: memory that is given back while the kernel still has to read it goes to the next.
    generator = torch.Generator().manual_seed(0)
    pairs = [LAYOUTS[layout](torch.randn(30, 40, generator=generator)) for _ in range(6)]
    summaries = measure([Difference(*pair) for pair in pairs]).resolve()
    for (after, before), summary in zip(pairs, summaries, strict=True):
        exact = (after.to_dense() if after.is_sparse else after).double()
        exact = exact - (before.to_dense() if before.is_sparse else before).double()
        assert summary.l1 == pytest.approx(exact.abs().sum().item(), rel=1e-6)
        assert summary.max == pytest.approx(exact.max().item(), rel=1e-6)


def test_addresses_are_taken_only_where_what_lies_there_is_kept():
    """Whoever calls compiled code with an address keeps the tensor; each of these modules was read for it."""
    package = Path(debuggers.__file__).parent
    found = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if re.search(r"data_ptr\b|\.ctypes\.data|__array_interface__", path.read_text())
    }
    assert found == {
        "measurement/plain_values.py",  # address(), which only HostBatch, KernelBatch and gpu.py hand on
        "measurement/kernels/gpu/launching.py",  # of memory that its stream gives to others after the kernels
        "measurement/kernels/samples.py",  # of copies that whoever describes them keeps
        "measurement/kernels/spread.py",  # called with the tensors themselves
        "first_nan/forward_capture.py",  # compared, never read
        "observed_training/carried_states.py",  # the same
        "observed_training/forward_calls.py",  # the same
        "observed_training/step_passes.py",  # the same
        "observed_training/graphs/mixed_samples.py",  # the same
        "profiling/step_times.py",  # the same
        "conditional_hooks/bounds.py",  # of the tensor that a layer just returned, read before the call ends
    }  # fmt: skip
