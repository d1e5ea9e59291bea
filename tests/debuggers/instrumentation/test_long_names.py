"""A parameter or layer with a very long name is recorded, and so are all others."""

import pytest
import torch
from tracker_adapters.testing import MemoryEmitter

import stepscope
from debuggers.instrumentation.long_names import MOST_CHARACTERS, fitting_name
from debuggers.instrumentation.module_selection import module_named

LONG = "x" * 1100


def test_a_name_that_fits_stays_as_it_is():
    assert fitting_name("y" * MOST_CHARACTERS) == "y" * MOST_CHARACTERS
    assert fitting_name("") == ""


def test_long_names_fit_and_stay_different():
    first, second = fitting_name(f"{LONG}a{LONG}"), fitting_name(f"{LONG}b{LONG}")
    assert max(len(first), len(second)) <= MOST_CHARACTERS
    assert first != second
    assert first.startswith("xxx")
    assert fitting_name(LONG + "\udc80") != fitting_name(LONG + "\udc81")


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(4, 4)
        self.add_module(LONG, torch.nn.Linear(4, 2))

    def forward(self, inputs):
        return self.get_submodule(LONG)(self.first(inputs))


def test_all_of_a_model_with_a_long_name_is_recorded():
    model, emitter = Network(), MemoryEmitter()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with stepscope.watch(model, optimizer, run=emitter, config="full") as session:
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.ones(8, 4)).square().mean().backward()
            optimizer.step()

    names = {artifact.name for artifact in emitter.artifacts}
    short = fitting_name(f"{LONG}.weight")
    assert {"gradient_norm/first.weight", f"gradient_norm/{short}", f"update_ratio/{short}"} <= names
    assert {"activation_norm/first", f"activation_norm/{fitting_name(LONG)}"} <= names
    assert "internal" not in session.report().summary()


@pytest.mark.parametrize("name", [LONG, fitting_name(LONG)])
def test_a_layer_is_found_by_its_name_and_by_what_it_is_called(name):
    model = Network()
    assert module_named(model, name).module is model.get_submodule(LONG)
