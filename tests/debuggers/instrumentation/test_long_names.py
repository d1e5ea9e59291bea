"""A parameter or layer with a name that is very long, or cannot be stored, is recorded, and so are all others."""

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
    assert fitting_name("größe\n") == "größe\n"


def test_what_cannot_be_stored_of_a_name_is_written_out():
    assert fitting_name("a\0b") == r"a\x00b"
    assert fitting_name("\ud800é") == r"\ud800é"


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


@pytest.mark.parametrize("name", ["a\0b", "\ud800x"])
def test_a_model_with_a_name_that_cannot_be_stored_is_recorded_and_diagnosed(name, tmp_path):
    model = torch.nn.Sequential()
    model.add_module(name, torch.nn.Linear(4, 8))
    model.add_module("end", torch.nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with (
        stepscope.open_run(tmp_path / "run", sinks=[]) as run,
        stepscope.watch(model, optimizer, run=run, config="full") as session,
    ):
        for _ in range(30):
            inputs = torch.randn(8, 4)
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(inputs), inputs[:, :2]).backward()
            optimizer.step()
    assert session.report().failures == {}
    stored = stepscope.read_run(tmp_path / "run").scalars(f"gradient_norm/{fitting_name(name)}.weight")
    assert len(stored.values) == 30
