"""What a loop tells of a batch may be any tensor: it is measured or left out, and never ends the training."""

import logging
from collections.abc import Mapping

import pytest
import torch
from torch import nn
from tracker_adapters.testing import MemoryEmitter

import stepscope
from debuggers.signals.batch_statistics import target_statistics
from debuggers.signals.sampling import with_sign

STEPS, ROWS = 4, 8
MEASURED = {"accuracy", "baseline_loss", "targets/classes_so_far", "targets/top_share", "targets/mean"}


class Closed(Mapping):
    """Cannot be iterated over, as a table whose file is closed."""

    def __getitem__(self, key):
        raise LookupError("nobody may look")

    __iter__ = __len__ = lambda self: self["any"]

    def __repr__(self):
        raise LookupError("nobody may look")


def holds_itself():
    found = {"value": torch.zeros(3)}
    found["self"] = found
    return found


def nested(layout):
    return torch.nested.nested_tensor([torch.zeros(3), torch.zeros(5)], layout=layout)


ODD = {
    "nested": lambda: nested(torch.strided),
    "jagged": lambda: nested(torch.jagged),
    "sparse": lambda: torch.eye(ROWS).to_sparse(),
    "meta": lambda: torch.zeros(ROWS, 2, device="meta"),
    "complex": lambda: torch.zeros(ROWS, 2, dtype=torch.complex64),
    "quantised": lambda: torch.quantize_per_tensor(torch.zeros(ROWS, 2), 0.1, 0, torch.qint8),
    "float8": lambda: torch.zeros(ROWS, 2).to(torch.float8_e4m3fn),
    "empty": lambda: torch.zeros(0, 2),
    "truth values": lambda: torch.arange(ROWS) % 2 == 0,
    **{
        str(dtype): lambda dtype=dtype: (torch.arange(ROWS) % 2).to(dtype)
        for dtype in (torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.int8, torch.int16)
    },
}


def train(tell, *, has_backward=True, several=False, run=None):
    """Steps of a classifier; ``tell`` is called as each is told. Returns the session."""
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    parts = [[model.weight], [model.bias]] if several else [model.parameters()]
    optimizers = [torch.optim.SGD(part, lr=0.1) for part in parts]
    with stepscope.watch(model, optimizers, run=run) as session:
        for _ in range(STEPS):
            inputs, targets = torch.randn(ROWS, 3), torch.arange(ROWS) % 2
            outputs = model(inputs)
            loss = nn.functional.cross_entropy(outputs, targets)
            if has_backward:
                model.zero_grad()
                loss.backward()
            else:  # gradients that no backward pass showed
                for one, slope in zip(
                    model.parameters(), torch.autograd.grad(loss, list(model.parameters())), strict=True
                ):
                    one.grad = slope
            tell(session, loss, outputs, optimizers)
    return session


def told_before(told):
    def tell(session, loss, outputs, optimizers):
        session.step(loss, **told(outputs))
        for one in optimizers:
            one.step()

    return tell


def told_after(told):
    def tell(session, loss, outputs, optimizers):
        for one in optimizers:
            one.step()
        session.step(loss, **told(outputs))

    return tell


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors", "ignore:.*quantize_per_tensor")
@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("name", ["inputs", "outputs", "targets"])
def test_an_odd_tensor_is_measured_or_left_out(kind, name, caplog):
    with caplog.at_level(logging.WARNING):
        for tell in (told_before, told_after):
            for several in (False, True):
                for has_backward in (True, False):
                    session = train(tell(lambda _: {name: ODD[kind]()}), has_backward=has_backward, several=several)
                    assert session.report().failures == {}
    assert "failed" not in caplog.text


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.uint16, torch.uint32, torch.uint64])
def test_targets_without_a_sign_are_measured_as_class_targets(dtype):
    def measured(dtype):
        emitter, told = MemoryEmitter(), (torch.arange(ROWS) % 2).to(dtype)
        train(told_before(lambda outputs: {"outputs": outputs, "targets": told}), has_backward=False, run=emitter)
        return {
            (one.name, one.step): one.value
            for one in emitter.artifacts
            if one.name.removeprefix("diagnosis/") in MEASURED
        }

    assert {name.removeprefix("diagnosis/") for name, _ in measured(torch.int64)} == MEASURED
    assert measured(dtype) == measured(torch.int64)


def test_a_class_of_eight_bits_is_not_one_to_ignore():
    """In 8 bits without a sign, -100 is 156."""
    statistics, _ = target_statistics(with_sign(torch.full((8,), 156, dtype=torch.uint8)), 8, None)
    assert statistics["targets/mean"] == 156


NESTS = {
    "holds itself": (holds_itself, "RecursionError: .* does it hold itself"),
    "fails": (Closed, "LookupError: nobody may look"),
}


@pytest.mark.parametrize("kind", NESTS)
@pytest.mark.parametrize("name", ["inputs", "outputs", "targets"])
@pytest.mark.parametrize("tell", [told_before, told_after])
@pytest.mark.parametrize("several", [False, True])
def test_a_nest_that_cannot_be_looked_through_is_named(kind, name, tell, several):
    made, message = NESTS[kind]
    with pytest.raises(stepscope.SessionError, match=rf"{name}, of type .* cannot be looked through \({message}"):
        train(tell(lambda _: {name: made()}), several=several)


def test_a_probe_names_what_it_cannot_look_through():
    model = nn.Linear(3, 2)
    with (
        stepscope.watch(model, torch.optim.SGD(model.parameters(), lr=0.1)) as session,
        pytest.raises(stepscope.SessionError, match="batch, of type dict, cannot be looked through"),
    ):
        session.probe(holds_itself(), loss=nn.functional.cross_entropy)


@pytest.mark.parametrize("tell", [told_before, told_after])
def test_what_has_no_repr_and_no_tensor_is_named(tell):
    class Silent:
        def __repr__(self):
            raise LookupError("nobody may look")

    with pytest.raises(stepscope.SessionError, match="targets is a value without a repr, of type Silent; expected"):
        train(tell(lambda _: {"targets": Silent()}))


@pytest.mark.parametrize("tell", [told_before, told_after])
@pytest.mark.parametrize("several", [False, True])
def test_metrics_that_are_no_mapping_are_named(tell, several):
    with pytest.raises(stepscope.SessionError, match=r"metrics is \[0\.5\], of type list; expected a mapping of names"):
        train(tell(lambda _: {"metrics": [0.5]}), several=several)


def test_a_validation_names_metrics_that_are_no_mapping():
    model = nn.Linear(3, 2)
    with (
        stepscope.watch(model, torch.optim.SGD(model.parameters(), lr=0.1)) as session,
        pytest.raises(stepscope.SessionError, match=r"metrics is \[0\.5\], of type list; expected a mapping of names"),
    ):
        session.validation(metrics=[0.5])


@pytest.mark.parametrize(("name", "shown"), [("", "''"), (3, "3")])
def test_a_metric_without_a_name_is_named(name, shown):
    with pytest.raises(stepscope.SessionError, match=f"metrics has the name {shown}; expected a string"):
        train(told_before(lambda _: {"metrics": {name: 1.0}}))


@pytest.mark.parametrize("name", ["loss", "learning_rate", "learning_rate/0", "diagnosis/accuracy", "validation/loss"])
def test_a_metric_with_the_name_of_what_the_session_records_itself_is_refused(name):
    with pytest.raises(stepscope.SessionError, match=f"metrics has the name '{name}', under which the session records"):
        train(told_before(lambda _: {"metrics": {name: 1.0}}))


def test_a_validation_refuses_a_second_loss_alone():
    model = nn.Linear(3, 2)
    with stepscope.watch(model, torch.optim.SGD(model.parameters(), lr=0.1)) as session:
        session.validation(0.5, metrics={"accuracy": 0.9, "learning_rate": 0.1})
        with pytest.raises(
            stepscope.SessionError, match="the name 'loss', under which the session records validation/"
        ):
            session.validation(0.5, metrics={"loss": 0.4})
