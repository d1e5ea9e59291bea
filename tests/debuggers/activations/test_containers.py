"""Outputs are recorded whether the loop calls the model or its parts; where that fails, one warning says so."""

import pytest
import torch
from torch import nn
from tracker_adapters.testing import MemoryEmitter

from debuggers.activations.monitor import ActivationMonitor


class Gan(nn.Module):
    def __init__(self):
        super().__init__()
        self.generator = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 6))
        self.discriminator = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 1))


class Coder(nn.Module):
    """Can be called as a whole, and in parts."""

    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.Linear(4, 2), nn.Linear(2, 4)

    def forward(self, inputs):
        return self.decoder(self.encoder(inputs))


def names_at(model, call, *, steps=2):
    emitter = MemoryEmitter()
    monitor = ActivationMonitor(model, emitter=emitter, gradients=True, on_error="raise")
    for step in range(steps):
        monitor.expect(step)
        call(model).square().mean().backward()
        monitor.detach(step)
    monitor.close()
    found = [item for item in emitter.artifacts if item.kind == "histogram" and item.name.startswith("activations/")]
    return monitor, [{item.name for item in found if item.step == step} for step in range(steps)]


def test_the_parts_of_a_model_that_is_never_called_are_recorded_from_the_first_step_on():
    monitor, names = names_at(Gan(), lambda gan: gan.discriminator(gan.generator(torch.randn(3, 4))))

    layers = {f"activations/{part}.{row}" for part in ("generator", "discriminator") for row in range(3)}
    assert names == [layers, layers]
    assert monitor.uncovered == monitor.never_seen == []


def test_a_second_call_of_a_part_has_its_own_name():
    def call(gan):
        fake = gan.generator(torch.randn(3, 4))
        return gan.discriminator(fake) + gan.discriminator(torch.randn(3, 6))

    _, names = names_at(Gan(), call)

    assert {"activations/discriminator.0", "activations/discriminator.0:1"} <= names[0]
    assert "activations/generator.0:1" not in names[0]


def test_parts_that_are_called_in_turn_with_the_whole_model_keep_their_names():
    turns = iter([lambda coder, x: coder(x), lambda coder, x: coder.decoder(coder.encoder(x))])

    _, names = names_at(Coder(), lambda coder: next(turns)(coder, torch.randn(3, 4)))

    assert names == [{"activations/encoder", "activations/decoder"}] * 2


def test_a_validation_of_parts_without_gradients_records_nothing():
    def call(coder):
        with torch.no_grad():
            coder.encoder(torch.full((5, 4), 1e6))
        return coder.decoder(coder.encoder(torch.randn(3, 4)))

    emitter = MemoryEmitter()
    monitor = ActivationMonitor(Coder(), emitter=emitter, on_error="raise")
    monitor.expect(0)
    call(monitor._model).mean().backward()
    monitor.detach(0)
    monitor.close()

    (output,) = [item for item in emitter.artifacts if item.name == "activations/encoder"]
    assert output.count == 3 * 2


def test_a_part_that_is_never_called_is_named():
    monitor, _ = names_at(Gan(), lambda gan: gan.discriminator(torch.randn(3, 6)))

    assert monitor.never_seen == ["generator.0", "generator.1", "generator.2"]


@pytest.mark.slow
@pytest.mark.parametrize("compiled", ["in place", "wrapped"])
def test_compiled_models_are_reported_once_with_the_remedy(caplog, compiled):
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
    wrapped = torch.compile(model, backend="eager")
    if compiled == "in place":
        model.compile(backend="eager")

    monitor, names = names_at(
        model, lambda model: (model if compiled == "in place" else wrapped)(torch.randn(3, 4)), steps=3
    )

    assert names == [set(), set(), set()]
    assert monitor.uncovered == monitor.never_seen == ["0", "1"]
    (record,) = [record for record in caplog.records if record.name == "debuggers.activations.coverage"]
    assert "set_stance" in record.message


def test_a_step_that_nothing_was_expected_of_says_nothing(caplog):
    monitor = ActivationMonitor(Coder(), on_error="raise")
    monitor.detach(0)

    assert not caplog.records
    assert monitor.uncovered == []
