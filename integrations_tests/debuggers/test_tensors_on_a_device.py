"""Tensors of every kind on a device have the statistics that they have on the host, by the kernels and without."""

import numpy as np
import pytest
import torch
from pretended_device import tried_device

from debuggers.gradients.loss_scale import measure_unscaled
from debuggers.measurement.measure import Difference, measure


def normal(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


SPARSE = torch.tensor([[0.0, 2.0], [-3.0, 0.0]])
KINDS = {
    "transposed": lambda: normal(7, 50).T,
    "strided": lambda: normal(8, 50)[::2, 1::3],
    "expanded": lambda: normal(5, 1).expand(5, 30),
    "channels last": lambda: normal(2, 3, 4, 5).to(memory_format=torch.channels_last),
    "lazily negated": lambda: torch.complex(normal(6), normal(6)).conj().imag,
    "0-d": lambda: torch.tensor(2.5),
    "empty": lambda: torch.empty(3, 0, dtype=torch.bfloat16),
    "float64": lambda: normal(4097).double(),
    "bfloat16": lambda: normal(5000).bfloat16(),
    "bfloat16, transposed": lambda: normal(70, 30).bfloat16().T,
    "bfloat16, strided": lambda: normal(70, 30).bfloat16()[::2],
    "a parameter of float16": lambda: torch.nn.Parameter(normal(4, 4).half()),
    "complex": lambda: torch.complex(normal(9), normal(9)),
    "integers": lambda: torch.arange(50),
    "bools": lambda: torch.tensor([True, False]),
    "float8": lambda: normal(40).to(torch.float8_e4m3fn),
    "sparse": SPARSE.to_sparse_coo,
    "sparse bfloat16": lambda: SPARSE.bfloat16().to_sparse_coo(),
    "compressed": SPARSE.to_sparse_csr,
    "a difference": lambda: Difference(normal(5000), normal(5000) * 0.5),
    "a difference of bfloat16": lambda: Difference(normal(50).bfloat16(), normal(50).bfloat16() * 3),
    "a difference of two layouts": lambda: Difference(normal(5, 6).T, normal(6, 5)),
    "a difference of two dtypes": lambda: Difference(normal(9), normal(9).bfloat16()),
    "a difference of integers": lambda: Difference(torch.arange(9), torch.ones(9, dtype=torch.int64)),
    "a difference of sparse tensors": lambda: Difference(SPARSE.to_sparse_coo(), SPARSE.to_sparse_coo() * 2),
}


def assert_alike(ours, theirs):
    for name in ("tallies", "ends", "bins", "counts"):
        np.testing.assert_array_equal(getattr(ours.columns, name), getattr(theirs.columns, name), err_msg=name)
    np.testing.assert_array_equal(ours.columns.moments[:, :2], theirs.columns.moments[:, :2])
    np.testing.assert_allclose(ours.l1, theirs.l1, rtol=2**-20)
    np.testing.assert_allclose(ours.l2, theirs.l2, rtol=2**-20)


@pytest.mark.parametrize("with_kernels", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.filterwarnings("ignore:Sparse")
def test_tensors_of_every_kind_have_the_statistics_that_they_have_on_the_host(with_kernels, monkeypatch):
    tensors = {kind: make() for kind, make in KINDS.items()}
    theirs = measure(tensors).resolve()
    alone = {kind: measure({kind: tensor}).resolve() for kind, tensor in tensors.items()}
    with tried_device(monkeypatch, with_kernels=with_kernels):
        together = measure(tensors)
        each = {kind: measure({kind: tensor}).resolve() for kind, tensor in tensors.items()}
        assert_alike(together.resolve(), theirs)
    for kind, table in each.items():
        assert_alike(table, alone[kind])


@pytest.mark.parametrize("scale", [1000.0, pytest.param(65536.0, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "kinds", [["float64", "bfloat16", "a parameter of float16", "transposed"], ["strided", "bfloat16"]]
)
def test_gradients_are_divided_by_the_scale_of_a_grad_scaler(kinds, scale, monkeypatch):
    gradients = [KINDS[kind]().detach() * scale for kind in kinds]
    theirs = measure_unscaled(gradients, torch.tensor(scale)).resolve()
    on_device = torch.tensor(scale)
    with tried_device(monkeypatch) as device:
        measured = measure_unscaled(gradients, on_device)
        assert device.waits == []
        ours = measured.resolve()
    np.testing.assert_array_equal(ours.columns.tallies, theirs.columns.tallies)
    np.testing.assert_allclose(ours.columns.moments[:, :2], theirs.columns.moments[:, :2], rtol=2**-22)
    np.testing.assert_allclose(ours.l2, theirs.l2, rtol=2**-20)


@pytest.mark.parametrize("with_kernels", [True, False])
def test_memory_of_other_streams_is_kept_until_it_was_read(with_kernels, monkeypatch):
    tensors = [torch.ones(5000), torch.ones(3, dtype=torch.float64), torch.ones(2)]
    with tried_device(monkeypatch, with_kernels=with_kernels) as device:
        measure([tensors[0], tensors[1], Difference(tensors[0], tensors[0]), tensors[2]]).resolve()
        assert {tensor.data_ptr() for tensor in tensors} <= set(device.kept)
