"""The probe gives the norm of all gradients, of any magnitude, and distinguishes huge ones from infinite ones."""

import math

import pytest
import torch

from debuggers.gradients.step_probe import probe_gradients
from debuggers.torch_internals.autograd import next_node_number

FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]


def probe(*tensors, scale=None):
    return probe_gradients(tensors, scale).resolve()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_one_element_that_is_not_finite_is_seen(dtype, bad):
    torch.manual_seed(0)
    tensors = [torch.randn(3, 50).to(dtype), torch.randn(77).to(dtype)]
    assert probe(*tensors).finite
    tensors[1][40] = bad

    reading = probe(*tensors)

    assert not reading.finite
    assert math.isnan(reading.total_norm)


@pytest.mark.parametrize("dtype", FLOATS)
def test_the_norm_is_that_of_all_together(dtype):
    torch.manual_seed(0)
    tensors = [torch.randn(30, 50).to(dtype), torch.randn(77).to(dtype), torch.randn(()).to(dtype)]

    expected = float(torch.cat([tensor.double().flatten() for tensor in tensors]).norm())

    assert probe(*tensors).total_norm == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("exponent", [-40, -30, -20, 20, 30, 38])
def test_sizes_whose_squares_float32_lacks_keep_their_norm(exponent):
    reading = probe(torch.full((4,), 10.0**exponent))

    assert reading.finite
    assert reading.total_norm == pytest.approx(2 * float(torch.tensor(10.0**exponent)), rel=1e-6)


@pytest.mark.parametrize("exponent", [-300, 300])
def test_sizes_whose_squares_float64_lacks_keep_their_norm(exponent):
    reading = probe(torch.full((4,), 10.0**exponent, dtype=torch.float64), torch.zeros(3))

    assert (reading.finite, reading.total_norm) == (True, pytest.approx(2 * 10.0**exponent, rel=1e-6))


def test_large_halves_do_not_overflow():
    assert probe(torch.full((4,), 60000.0, dtype=torch.float16)).total_norm == pytest.approx(120000, rel=1e-3)


def test_zeros_and_empty_tensors_have_no_norm():
    assert probe(torch.zeros(5), torch.empty(0)) == probe(torch.empty(0, 3))
    assert probe(torch.zeros(5)).total_norm == 0


def test_a_loss_scale_is_taken_out():
    assert probe(torch.full((4,), 1024.0), scale=torch.tensor(512.0)).total_norm == pytest.approx(4)
    assert not probe(torch.full((4,), math.inf), scale=torch.tensor(math.inf)).finite


def test_layouts_and_dtypes_of_all_kinds():
    dense = torch.arange(12.0).reshape(3, 4)
    expected = float(dense.norm())

    assert probe(dense.t()).total_norm == pytest.approx(expected)
    assert probe(dense[:, ::2], dense[:, 1::2]).total_norm == pytest.approx(expected)
    assert probe(dense.to_sparse()).total_norm == pytest.approx(expected)
    assert probe(dense.to_sparse_csr()).total_norm == pytest.approx(expected)
    assert probe(torch.complex(dense, dense)).total_norm == pytest.approx(expected * math.sqrt(2))
    assert probe(dense.half(), dense.double()).total_norm == pytest.approx(expected * math.sqrt(2))
    duplicates = torch.sparse_coo_tensor(torch.tensor([[0, 0]]), torch.tensor([3.0, 4.0]), (2,))
    assert probe(duplicates).total_norm == pytest.approx(7)


def test_nothing_is_changed_and_no_graph_grows():
    tensor = torch.randn(5, requires_grad=True)
    before = tensor.detach().clone()
    state = torch.get_rng_state()

    probe(tensor)

    assert torch.equal(tensor, before)
    assert torch.equal(torch.get_rng_state(), state)
    assert tensor.grad is None


@pytest.mark.parametrize("size", [1.0, 1e-30])
def test_gradients_with_a_graph_of_their_own_get_no_node_more(size):
    weight = torch.full((3,), size, requires_grad=True)
    (gradient,) = torch.autograd.grad((weight * weight).sum(), weight, create_graph=True)
    first = next_node_number()

    reading = probe(gradient)

    assert gradient.requires_grad
    assert next_node_number() == first
    assert reading.total_norm == pytest.approx(2 * size * math.sqrt(3))
