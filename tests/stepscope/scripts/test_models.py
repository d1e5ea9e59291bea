"""Which model belongs to an optimizer, found among all modules of the process."""

import pytest
import torch

from stepscope.scripts.models import model_of


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Linear(4, 4)
        self.head = torch.nn.Linear(4, 2)

    def forward(self, inputs):
        return self.head(self.body(inputs))


class Encoder(Net):
    pass


class Wrapper(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, inputs):
        return self.inner(inputs)


class Holder(torch.nn.Module):
    """Never called: the loop calls what it holds."""

    def __init__(self):
        super().__init__()
        self.net = Net()


def sgd(*modules):
    return torch.optim.SGD([parameter for module in modules for parameter in module.parameters()], lr=0.1)


def test_the_model_is_the_outermost_module_also_where_a_part_is_trained():
    net, other = Net(), Net()
    assert model_of(sgd(net)) is net
    assert model_of(sgd(net.head)) is net
    wrapper = Wrapper(net)
    assert model_of(sgd(net)) is wrapper
    assert model_of(sgd(other)) is other


@pytest.mark.parametrize(
    "hold", [lambda net: torch.nn.ModuleDict({"net": net}), lambda net: torch.nn.ModuleList([net])]
)
def test_a_container_that_is_never_called_is_not_the_model(hold):
    net = Net()
    container = hold(net)
    assert model_of(sgd(net)) is net
    assert len(list(container.children())) == 1


def test_a_module_without_a_forward_is_not_the_model():
    holder = Holder()
    assert model_of(sgd(holder)) is holder.net


def test_several_models_of_one_optimizer_are_taken_together():
    encoder, first, second = Encoder(), Net(), Net()
    found = model_of(sgd(encoder, first, second))
    assert isinstance(found, torch.nn.ModuleDict)
    assert {type(module) for module in found.values()} == {Encoder, Net}
    assert {id(one) for one in found.parameters()} == {
        id(one) for module in (encoder, first, second) for one in module.parameters()
    }


def test_plain_tensors_have_no_model():
    assert model_of(torch.optim.SGD([torch.zeros(3, requires_grad=True)], lr=0.1)) is None


def test_modules_whose_constructor_has_not_begun_are_passed_over():
    net, unmade = Net(), torch.nn.Linear.__new__(torch.nn.Linear)
    assert model_of(sgd(net)) is net
    assert not vars(unmade)
