"""Parameters have the names of the model itself, whatever wraps it; each comes once."""

import pytest
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils.prune import l1_unstructured

from debuggers.gradients.parameters import Parameters

PLAIN = ("0.weight", "0.bias", "2.weight", "2.bias")


def network():
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))


def backward(model):
    model(torch.ones(5, 3)).sum().backward()


def test_names_gradients_and_parameters_are_in_the_models_order():
    model = network()
    parameters = Parameters(model)
    backward(model)
    found = parameters.gradients()
    assert found.names == PLAIN
    assert all(one is other for one, other in zip(found.parameters, model.parameters(), strict=True))
    assert all(one is other.grad for one, other in zip(found.tensors, model.parameters(), strict=True))
    assert found.missing == 0


def test_wrappers_leave_no_trace_in_the_names(process_group):
    parallel = DistributedDataParallel(network())
    wrapped = [
        torch.compile(network(), backend="eager"),
        nn.DataParallel(network()),
        parallel,
        torch.compile(parallel, backend="eager"),
        DistributedDataParallel(torch.compile(network(), backend="eager")),
    ]
    assert {Parameters(model).names for model in wrapped} == {PLAIN}
    inner = nn.Sequential(torch.compile(nn.Linear(3, 3), backend="eager"))
    assert Parameters(inner).names == ("0.weight", "0.bias")


def test_a_module_that_is_called_module_or_like_a_wrapper_keeps_its_name():
    model = nn.ModuleDict({"module": nn.Linear(1, 1, bias=False), "my_orig_mod": nn.Linear(1, 1, bias=False)})
    assert Parameters(model).names == ("module.weight", "my_orig_mod.weight")


def test_a_tied_parameter_comes_once_with_its_aliases():
    model = nn.ModuleDict({"encoder": nn.Linear(2, 2), "decoder": nn.Linear(2, 2)})
    model["decoder"].weight = model["encoder"].weight
    parameters = Parameters(model)
    assert parameters.names == ("encoder.weight", "encoder.bias", "decoder.bias")
    assert parameters.aliases == {"encoder.weight": ("decoder.weight",)}


def test_frozen_parameters_and_those_without_a_gradient_are_left_out_and_counted():
    model = network()
    model[0].requires_grad_(requires_grad=False)
    model[2].unused = nn.Parameter(torch.ones(2))
    parameters = Parameters(model)
    backward(model)
    found = parameters.gradients()
    assert (found.names, found.missing) == (("2.weight", "2.bias"), 1)
    assert [len(found.parameters), len(found.tensors)] == [2, 2]


def test_the_tuple_of_names_is_the_same_while_the_gradients_are():
    model = network()
    parameters = Parameters(model)
    backward(model)
    first = parameters.gradients().names
    assert all(parameters.gradients().names is first for _ in range(250))
    model[0].weight.grad = None
    fewer = parameters.gradients().names
    assert fewer == PLAIN[1:]
    assert parameters.gradients().names is fewer


def exchange(model):
    model[2] = nn.Linear(4, 2, bias=False)


def add(model):
    model[0].register_parameter("scale", nn.Parameter(torch.ones(4)))


def add_where_nothing_was(model):
    model[1].register_module("inner", nn.Linear(1, 1))


def remove(model):
    model[2].register_parameter("bias", None)


def exchange_by_loading(model):
    model.load_state_dict({name: value.clone() for name, value in model.state_dict().items()}, assign=True)


def prune(model):
    l1_unstructured(model[2], "weight", amount=0.5)


def parametrize(model):
    nn.utils.parametrizations.weight_norm(model[0])


def tie(model):
    model[0].weight = nn.Parameter(torch.ones(2, 4))
    model[2].weight = model[0].weight


CHANGES = [exchange, add, add_where_nothing_was, remove, exchange_by_loading, prune, parametrize, tie]


@pytest.mark.parametrize("change", CHANGES)
def test_the_next_call_knows_what_has_changed_in_the_model(change):
    model = network()
    parameters = Parameters(model)
    backward(model)
    parameters.gradients()
    change(model)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)

    found = parameters.gradients()

    expected = dict(model.named_parameters())
    assert found.names == tuple(expected)
    assert all(one is other for one, other in zip(found.parameters, expected.values(), strict=True))
    assert all(one is other.grad for one, other in zip(found.tensors, expected.values(), strict=True))


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors", "ignore:Sparse CSR tensor support")
def test_buffers_without_dense_values_do_not_hide_broken_ones():
    model = network()
    model.register_buffer("rows", torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]))
    model.register_buffer("graph", torch.eye(3).to_sparse_csr())
    model.register_buffer("later", torch.empty(3, device="meta"))
    model.register_buffer("scale", torch.tensor([1.0, torch.nan]))

    assert Parameters(model).broken() == ["scale"]


def test_what_an_optimizer_has_let_go_is_left_out_until_it_is_held_again():
    model = network()
    optimizer = torch.optim.SGD([{"params": model[0].parameters()}, {"params": model[2].parameters()}], lr=0.1)
    parameters = Parameters(model, optimizer)
    backward(model)
    assert parameters.gradients().names == PLAIN
    group = optimizer.param_groups.pop(0)
    found = parameters.gradients()
    assert found.names == ("2.weight", "2.bias")
    assert found.missing == 0
    assert parameters.gradients(with_released=True).names == PLAIN
    optimizer.add_param_group({"params": group["params"]})
    assert parameters.gradients().names == PLAIN


def test_what_an_optimizer_never_held_counts():
    model = network()
    parameters = Parameters(model, torch.optim.SGD(model[2].parameters(), lr=0.1))
    backward(model)
    assert parameters.gradients().names == PLAIN
