"""A model may take and return containers of any class: none of them stops a training that is watched."""

from dataclasses import dataclass, field

import pytest
import torch
from torch import nn
from tracker_adapters.testing import MemoryEmitter

import stepscope
from debuggers.first_nan.finder import FirstNaNFinder
from stability import GradientClippingConfig, NaNHandlingConfig, NumericalStabilityManager


class Frozen(dict):
    """Cannot be copied item by item."""

    def __setitem__(self, key, value):
        raise TypeError("frozen")


class Two(tuple):
    """Is not made from one sequence."""

    def __new__(cls, first, second):
        return super().__new__(cls, (first, second))


class Named(list):
    def __init__(self, name, items):
        super().__init__(items)
        self.name = name


@dataclass
class Unset:
    value: object
    cache: object = field(init=False)


def endless(value):
    found = [value]
    found.append(found)
    return found


class Closed(list):
    def __iter__(self):
        raise LookupError("nobody may look")


class NeverDetached(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        if function.__name__ == "detach":
            raise RuntimeError("this tensor keeps its graph")
        return super().__torch_function__(function, types, args, kwargs or {})


CONTAINERS = {
    "frozen dict": (lambda value: Frozen(value=value), lambda held: held["value"]),
    "tuple of two": (lambda value: Two(value, value), lambda held: held[0]),
    "named list": (lambda value: Named("a", [value]), lambda held: held[0]),
    "unset field": (Unset, lambda held: held.value),
    "endless list": (endless, lambda held: held[0]),
    "closed list": (lambda value: Closed([value]), lambda held: held[0]),
    "odd tensor": (lambda value: value.as_subclass(NeverDetached), lambda held: held.as_subclass(torch.Tensor)),
}


class Packs(nn.Module):
    def __init__(self, pack, unpack):
        super().__init__()
        torch.manual_seed(0)
        self.linear, self.pack, self.unpack = nn.Linear(4, 2), pack, unpack

    def forward(self, packed):
        return self.pack(self.linear(self.unpack(packed)))


def losses_of(kind, watch):
    pack, unpack = CONTAINERS[kind]
    model = Packs(pack, unpack)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    found = []
    with watch(model, optimizer) as session:
        for _ in range(3):
            optimizer.zero_grad()
            loss = unpack(model(pack(torch.ones(3, 4)))).square().mean()
            loss.backward()
            session.step(loss)
            optimizer.step()
            found.append(loss.item())
    return found


class Unwatched:
    def __init__(self, model, optimizer):
        self.step = lambda loss: None

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None


def with_finder(model, optimizer):
    manager = NumericalStabilityManager(
        GradientClippingConfig(clipping_type="none"), NaNHandlingConfig(), find_first_nan=FirstNaNFinder(model)
    )
    return stepscope.DebugSession(model, optimizer, run=MemoryEmitter(), stability=manager, config="full")


@pytest.mark.parametrize("kind", CONTAINERS)
@pytest.mark.parametrize("watch", [pytest.param("economy", marks=pytest.mark.slow), "full", with_finder])
def test_a_training_goes_on(kind, watch):
    if isinstance(watch, str):
        preset = watch

        def watch(model, optimizer):
            return stepscope.DebugSession(model, optimizer, run=MemoryEmitter(), config=preset)

    assert losses_of(kind, watch) == losses_of(kind, Unwatched)


@pytest.mark.parametrize("kind", ["frozen dict", "tuple of two", "named list"])
def test_what_lies_in_a_container_that_cannot_be_copied_is_recorded(kind):
    emitter = MemoryEmitter()
    config = stepscope.DebugConfig(activations=["Packs"])
    losses_of(kind, lambda model, optimizer: stepscope.DebugSession(model, optimizer, run=emitter, config=config))
    names = {artifact.name for artifact in emitter.artifacts}
    assert names & {"activation_norm/Packs", "activation_norm/Packs.0"}
