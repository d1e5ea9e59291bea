"""Hooks come off completely, and do not follow a model where it is copied to."""

import copy
import pickle

import pytest
import torch
from torch import nn

from debuggers.hooks import ForwardHook, Hooks


def hooked_model():
    model, seen, hooks = nn.Sequential(nn.Linear(2, 2), nn.ReLU()), [], Hooks()
    hooks.add_forward((layer, lambda module, inputs, output: seen.append(type(module).__name__)) for layer in model)
    return model, seen, hooks


def hook_count(model):
    return sum(len(module._forward_hooks) for module in model.modules())


def test_functions_are_called_until_the_hooks_are_removed():
    model, seen, hooks = hooked_model()
    model(torch.ones(1, 2))
    assert seen == ["Linear", "ReLU"]
    hooks.remove()
    hooks.remove()
    model(torch.ones(1, 2))
    assert (len(seen), hook_count(model), len(hooks)) == (2, 0, 0)


def test_an_exception_in_the_block_removes_them_too():
    model = nn.Linear(2, 2)
    with pytest.raises(RuntimeError, match="stop"), Hooks() as hooks:
        hooks.add_forward([(model, print)])
        raise RuntimeError("stop")
    assert hook_count(model) == 0


def test_all_are_registered_or_none():
    model = nn.Linear(2, 2)
    with pytest.raises(AttributeError):
        Hooks().add_forward([(model, print), (None, print)])
    assert hook_count(model) == 0


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_a_copied_model_does_not_call_the_function(duplicate):
    model, seen, _ = hooked_model()
    twin = duplicate(model)
    assert torch.equal(model(torch.ones(1, 2)), twin(torch.ones(1, 2)))
    assert seen == ["Linear", "ReLU"]
    assert list(model.state_dict()) == ["0.weight", "0.bias"]


def test_the_hook_never_changes_the_output():
    layer = nn.Identity()
    layer.register_forward_hook(ForwardHook(lambda module, inputs, output: "something else"))
    assert layer(3) == 3
