"""What counts as numbers, and what is refused with which words."""

import decimal
import math

import ml_dtypes
import numpy as np
import pytest
import torch
from torch._subclasses import FakeTensorMode
from tracker_adapters.errors import ArtifactError
from tracker_adapters.histograms.histogram import Histogram
from tracker_adapters.values.arrays import as_array, as_float
from tracker_adapters.values.tensors import is_device_tensor, is_tensor

FLOAT8 = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")


@pytest.mark.parametrize("dtype", FLOAT8)
def test_every_float8_value_arrives_exactly_from_torch_and_from_numpy(dtype):
    bits = torch.arange(256, dtype=torch.uint8)
    from_torch = as_array("x", bits.view(getattr(torch, dtype)))
    from_numpy = as_array("x", bits.numpy().view(getattr(ml_dtypes, dtype)))
    assert from_torch.dtype == from_numpy.dtype == np.float32
    np.testing.assert_array_equal(from_torch, bits.numpy().view(getattr(ml_dtypes, dtype)).astype(np.float64))
    np.testing.assert_array_equal(from_torch, from_numpy)


def test_every_bfloat16_value_arrives_exactly():
    bits = torch.arange(2**16, dtype=torch.int32).to(torch.uint16)
    wanted = (bits.numpy().astype(np.uint32) << 16).view(np.float32)
    np.testing.assert_array_equal(as_array("x", bits.view(torch.bfloat16)), wanted)
    np.testing.assert_array_equal(as_array("x", bits.numpy().view(ml_dtypes.bfloat16)), wanted)


@pytest.mark.parametrize(
    "dtype", ["bool", "uint8", "int8", "int16", "int32", "int64", "uint64", "float16", "float32", "float64"]
)
def test_plain_dtypes_arrive_as_they_are(dtype):
    tensor = torch.tensor([[0, 1], [1, 0]]).to(getattr(torch, dtype))
    array = as_array("x", tensor)
    assert array.dtype == np.dtype(dtype)
    assert array.tolist() == tensor.tolist()


@pytest.mark.parametrize(
    ("tensor", "wanted"),
    [
        (torch.ones(2, requires_grad=True), [1.0, 1.0]),
        (torch.nn.Parameter(torch.zeros(1)), [0.0]),
        (torch.tensor([1 + 2j]).conj().imag, [-2.0]),  # a view with its negative bit set
        (torch.arange(6).reshape(2, 3).T[1], [1, 4]),
    ],
    ids=["requires-grad", "parameter", "negative-bit", "strided-view"],
)
def test_tensors_of_every_make_are_read(tensor, wanted):
    assert as_array("x", tensor).tolist() == wanted


def fake_tensor():
    with FakeTensorMode():
        return torch.ones(2)


def ragged(**options):
    return torch.nested.nested_tensor([torch.ones(1), torch.ones(2)], **options)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (torch.ones(2, 3, device="meta"), r"meta tensor of shape \(2, 3\).*expected a tensor with data"),
        (torch.tensor([1j]), r"complex tensor \(torch.complex64\); expected real values"),
        (fake_tensor(), "not an array of numbers"),
        ([torch.ones((), requires_grad=True)], "not an array of numbers"),
        (np.array([1j]), r"complex values \(complex128\); expected real ones"),
        ([[1.0], [1.0, 2.0]], "list .* is not an array of numbers"),
        ("0.5", "str '0.5' of dtype <U3; expected bool, integer or floating-point"),
        (None, "NoneType None of dtype object"),
        ({"a": 1}, "dict .* of dtype object"),
        (np.array(["2020"], dtype="datetime64[D]"), "expected bool, integer or floating-point"),
    ],
    ids=str,
)
def test_what_holds_no_numbers_is_refused_by_name(value, message):
    with pytest.raises(ArtifactError, match=rf"(?s)^histogram 'h': .*{message}"):
        as_array("histogram 'h'", value)


@pytest.mark.filterwarnings("ignore::UserWarning")  # betas, says torch
@pytest.mark.parametrize(
    ("make", "layout"),
    [
        (lambda: torch.eye(2).to_sparse(), "torch.sparse_coo"),
        (lambda: torch.eye(2).to_sparse_csr(), "torch.sparse_csr"),
        (ragged, "nested"),
        (lambda: ragged(layout=torch.jagged), "nested"),
    ],
)
def test_layouts_that_are_not_dense_are_refused(make, layout):
    with pytest.raises(
        ArtifactError, match=f"^histogram 'h': got a torch.float32 tensor with layout {layout}; expected a dense"
    ):
        as_array("histogram 'h'", make())


@pytest.mark.filterwarnings("ignore::UserWarning")  # deprecated, says torch
def test_quantised_tensors_are_read_by_value():
    tensor = torch.quantize_per_tensor(torch.tensor([0.5, 1.0]), 0.5, 0, torch.qint8)
    assert as_array("x", tensor).tolist() == [0.5, 1.0]


@pytest.mark.parametrize(
    "value", [1.5, np.float64(1.5), np.float32(1.5), np.array(1.5), torch.tensor(1.5), ml_dtypes.bfloat16(1.5)]
)
def test_one_number_of_any_make_is_a_float(value):
    found = as_float("scalar 's'", value)
    assert type(found) is float
    assert found == 1.5


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (True, 1.0),
        (np.bool_(False), 0.0),
        (torch.tensor(True), 1.0),
        (7, 7.0),
        (2**60 + 1, 2.0**60),
        (torch.tensor(-3, dtype=torch.int8), -3.0),
        (torch.tensor(0.5, dtype=torch.float8_e5m2), 0.5),
        (math.inf, math.inf),
        (torch.tensor(-math.inf), -math.inf),
    ],
)
def test_integers_truth_values_and_infinities_are_numbers(value, wanted):
    assert as_float("scalar 's'", value) == wanted


def test_nan_passes():
    assert math.isnan(as_float("scalar 's'", torch.tensor(math.nan)))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "got NoneType None; expected a number or a 0-d tensor or array"),
        ("0.5", "got str '0.5'; expected a number"),
        ([1.0, 2.0], r"got shape \(2,\); expected a number"),
        (torch.ones(1, 1), r"got shape \(1, 1\).*reshape\(\(\)\)"),
        (10**400, "int 1000.* is beyond the range of float64"),
        (torch.tensor(1j), "complex"),
        (1j, "complex"),
        (decimal.Decimal(1), "Decimal"),
    ],
    ids=str,
)
def test_what_is_not_one_number_is_refused(value, message):
    with pytest.raises(ArtifactError, match=f"^scalar 's': .*{message}"):
        as_float("scalar 's'", value)


def test_only_tensors_elsewhere_count_as_device_tensors():
    assert is_tensor(torch.ones(1))
    assert not is_tensor(np.ones(1))
    assert not is_device_tensor(torch.ones(1))
    assert not is_device_tensor(torch.ones(1, device="meta"))  # refused for having no values, not copied
    assert not is_device_tensor(1.0)


def test_what_a_mask_hides_is_no_value():
    masked = np.ma.array([1.0, 999.0, 3.0], mask=[False, True, False])
    assert np.isnan(as_float("scalar", np.ma.array([1.0, 2.0], mask=True).mean()))
    assert np.array_equal(as_array("x", masked), [1.0, np.nan, 3.0], equal_nan=True)
    histogram = Histogram.from_values("h", masked, step=0)
    assert (histogram.count, histogram.max) == (2, 3.0)
    with pytest.raises(ArtifactError, match="has no NaN for what is masked"):
        as_array("x", np.ma.array([1, 2], mask=[True, False]))
