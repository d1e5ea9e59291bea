"""Nodes of an autograd graph, read without changing or keeping anything."""

import pytest
import torch

from debuggers.torch_internals import graph_nodes

WEIGHT = torch.ones(4, 3, requires_grad=True)


def test_an_operator_is_named_without_what_torch_adds_and_its_operands_are_those_with_a_gradient():
    product = (2.5 * WEIGHT).sum(0).grad_fn
    (inner,) = graph_nodes.operands(product)
    assert (graph_nodes.operator(product), graph_nodes.operator(inner)) == ("Sum", "Mul")
    assert graph_nodes.shape_of(inner) == (4, 3)
    assert [graph_nodes.is_leaf(one) for one in (inner, *graph_nodes.operands(inner))] == [False, True]


@pytest.mark.parametrize(
    "result",
    [
        WEIGHT.view(3, 4), WEIGHT.T, WEIGHT[:2], WEIGHT.clone(), WEIGHT[None], WEIGHT.expand(2, 4, 3),
        WEIGHT.double(), WEIGHT.repeat(2, 1), WEIGHT.unbind()[0], WEIGHT.split(2)[0], WEIGHT.select(0, 1),
    ],
)  # fmt: skip
def test_what_passes_elements_on_is_known(result):
    assert graph_nodes.operator(result.grad_fn) in graph_nodes.PASSING


def test_what_picks_elements_by_indices_is_known():
    places = torch.zeros(4, 1, dtype=torch.int64)
    picked = (WEIGHT.gather(1, places), WEIGHT[places[:, 0]], WEIGHT.take(places))
    assert {graph_nodes.operator(one.grad_fn) for one in picked} <= graph_nodes.PICKING


@pytest.mark.parametrize(
    ("calculated", "expected"),
    [
        (lambda weight: 2.5 * weight, 2.5),
        (lambda weight: weight / 4, 4.0),
        (lambda weight: weight + 1, None),
        (lambda weight: weight * weight, None),
    ],
)
def test_the_constant_of_a_product_or_quotient_is_known(calculated, expected):
    # The node is made here: before torch 2.11, what an older one saved is unknown once other hooks have come and gone.
    assert graph_nodes.number_on_host(graph_nodes.constant_operand(calculated(WEIGHT).grad_fn)) == expected


def test_a_loss_scale_is_the_tensor_itself():
    scale = torch.tensor(1024.0)
    found = graph_nodes.scale_tensor((WEIGHT.sum() * scale).grad_fn)
    assert found is not None
    assert found.data_ptr() == scale.data_ptr()
    assert graph_nodes.scale_tensor(WEIGHT.sum().grad_fn) is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [(3, 3.0), (torch.tensor([0.5]), 0.5), (torch.ones(2), None), (float("nan"), None), ("3", None), (1j, None)],
)
def test_only_a_finite_number_is_one(value, expected):
    assert graph_nodes.number_on_host(value) == expected


def test_dimensions_count_from_either_end():
    assert [graph_nodes.dimension_of(place, 3) for place in (0, -1, 2)] == [0, 2, 2]


@pytest.mark.parametrize(
    ("tensor", "expected"),
    [(torch.ones(4, 1).expand(4, 3), (4, 1)), (torch.ones(3).expand(4, 3), (3,)), (torch.ones(4, 3), (4, 3))],
)
def test_an_expansion_is_seen_by_its_strides(tensor, expected):
    assert graph_nodes.unexpanded_shape(tensor) == expected


def test_the_dtypes_of_products_are_those_of_their_results():
    inputs = torch.ones(2, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        narrow = (inputs @ WEIGHT).float()
    assert graph_nodes.dtypes_of_products(narrow.grad_fn) == {torch.bfloat16}
    assert graph_nodes.dtypes_of_products((inputs @ WEIGHT).grad_fn) == {torch.float32}


def test_what_only_passes_on_is_looked_behind():
    weight = torch.nn.Parameter(torch.ones(2, 3))
    product = 2 * weight
    node = product.reshape(3, 2).t().squeeze().unsqueeze(0).grad_fn

    assert graph_nodes.behind(node) is product.grad_fn
    assert graph_nodes.behind(node, {"Unsqueeze"}) is node.next_functions[0][0]
    assert graph_nodes.behind(product.grad_fn) is product.grad_fn
