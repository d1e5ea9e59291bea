"""A debugger may hold a context open while its layers run; it is left whatever happens."""

import pickle
from contextlib import contextmanager

import debugger_parts
import pytest
import torch
from module_hooks import hook_count
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils.checkpoint import checkpoint
from torch_parts import Applies

from debuggers.forward_debugger import ForwardDebugger


class Journal(ForwardDebugger):
    """Writes down what happens around and after each forward."""

    def __init__(self, layer_name, prefix="", lines=None):
        super().__init__(layer_name)
        self.prefix = prefix
        self.lines = [] if lines is None else lines

    @contextmanager
    def around_forward(self, module, args, kwargs):
        self.lines.append(f"enter {self.prefix}{self.layer_name}")
        try:
            yield
        except Exception as error:
            self.lines.append(f"{self.prefix}{self.layer_name} saw {type(error).__name__}")
            raise
        finally:
            self.lines.append(f"leave {self.prefix}{self.layer_name}")

    def process_forward(self, module, input, output):
        self.lines.append(f"process {self.prefix}{self.layer_name}")
        return {"value": float(output.sum())}


class Counting(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.calls += func is torch.nn.functional.linear
        return func(*args, **(kwargs or {}))


class LinearCalls(ForwardDebugger):
    """Counts the linear functions inside a layer's forward."""

    def around_forward(self, module, args, kwargs):
        self.mode = Counting()
        return self.mode

    def process_forward(self, module, input, output):
        calls = self.mode.calls
        if self.layer_name != "0":
            torch.nn.functional.linear(torch.ones(1, 1), torch.ones(1, 1))
        return {"calls": calls, "after": self.mode.calls}


class Nested(nn.Module):
    """Calls itself as often as ``depth`` says."""

    def forward(self, x, depth=0):
        return x if depth == 0 else self(x + 1, depth=depth - 1)


def raises(error):
    def fail(x):
        raise error

    return Applies(fail)


def entry(cls, layer_name, name="seen", **args):
    return debugger_parts.entry(name, cls, layer_name=layer_name, **args)


def slots(sequential):
    return sequential({"meta_info": {"idx": 0}}, nn.Identity())


def lines(sequential, name="seen"):
    return sequential.debuggers[name].lines


ONE = torch.ones(1, 1)


def test_the_context_is_left_before_the_output_is_processed(watching):
    model = nn.Sequential(nn.Linear(1, 1), nn.ReLU())
    sequential = watching(model, entry(Journal, "?"))
    model(ONE)
    assert lines(sequential) == ["enter 0", "leave 0", "process 0", "enter 1", "leave 1", "process 1"]


def test_it_sees_what_happens_inside_and_nothing_else(watching):
    model = nn.Sequential(nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1)), nn.Linear(1, 1))
    sequential = watching(model, entry(LinearCalls, "0"), entry(LinearCalls, "", "all"))
    model(ONE)
    outputs = slots(sequential)
    assert (outputs["seen"], outputs["all"]) == ({"calls": 2, "after": 2}, {"calls": 3, "after": 3})


def test_calls_of_the_same_module_nest_and_repeat(watching):
    model = Nested()
    sequential = watching(model, entry(Journal, ""))
    for _ in range(2):
        model(ONE, depth=2)
        assert lines(sequential) == 3 * ["enter Nested"] + 3 * ["leave Nested", "process Nested"]
        lines(sequential).clear()


def test_debuggers_of_one_layer_leave_in_the_reverse_order(watching):
    model, seen = nn.Sequential(nn.ReLU()), []
    watching(model, *(entry(Journal, "0", name, prefix=f"{name} ", lines=seen) for name in "ab"))
    model(ONE)
    assert seen == ["enter a 0", "enter b 0", "leave b 0", "leave a 0", "process a 0", "process b 0"]


def test_it_is_left_when_the_forward_raises(watching):
    model = nn.Sequential(raises(ValueError("on purpose")))
    sequential = watching(model, entry(Journal, "*"))
    for _ in range(2):
        with pytest.raises(ValueError, match="on purpose"):
            model(ONE)
    expected = ["enter Sequential", "enter 0", "0 saw ValueError", "leave 0"]
    assert lines(sequential)[:6] == [*expected, "Sequential saw ValueError", "leave Sequential"]
    assert lines(sequential)[6:] == lines(sequential)[:6]
    assert "did not run" in slots(sequential)["seen"]["0"]["error"]


def test_an_interrupt_leaves_what_was_entered(watching):
    model = nn.Sequential(raises(KeyboardInterrupt), nn.ReLU())
    sequential = watching(model, entry(Journal, "0"))
    with pytest.raises(KeyboardInterrupt):
        model(ONE)
    assert lines(sequential) == ["enter 0", "leave 0"]
    sequential.enabled = False
    sequential.enabled = True
    assert "did not run" in slots(sequential)["seen"]["error"]


def test_no_mode_is_left_behind(watching):
    model = nn.Sequential(nn.Linear(1, 1), raises(ValueError("on purpose")))
    sequential = watching(model, entry(LinearCalls, "*"))
    with pytest.raises(ValueError, match="on purpose"):
        model(ONE)
    assert torch._C._len_torch_function_stack() == 0
    sequential.close()
    assert not hook_count(model)


class FailsToOpen(Journal):
    def around_forward(self, module, args, kwargs):
        raise OSError("cannot open")


class FailsToLeave(Journal):
    @contextmanager
    def around_forward(self, module, args, kwargs):
        yield
        raise OSError("cannot leave")


@pytest.mark.parametrize(("cls", "message"), [(FailsToOpen, "cannot open"), (FailsToLeave, "cannot leave")])
def test_failures_in_it_are_isolated(watching, cls, message):
    model = nn.Sequential(nn.Identity())
    sequential = watching(model, entry(cls, "0"))
    assert torch.equal(model(ONE), ONE)
    assert slots(sequential) == {"seen": {"error": f"OSError: {message}"}}
    assert lines(sequential) == []
    assert sequential.failures == {("debugger 'seen' at layer '0'", "OSError"): 1}


@pytest.mark.parametrize("cls", [FailsToOpen, FailsToLeave])
def test_failures_in_it_reach_the_caller_when_asked_to(watching, cls):
    model = nn.Sequential(nn.Identity())
    watching(model, entry(cls, "0"), on_error="raise")
    with pytest.raises(OSError, match="cannot"):
        model(ONE)


class Draws(Journal):
    @contextmanager
    def around_forward(self, module, args, kwargs):
        torch.rand(3)
        yield
        torch.rand(3)


def test_it_draws_no_random_numbers_of_the_run(watching):
    model = nn.Sequential(nn.Dropout(0.5))
    x = torch.ones(100)
    torch.manual_seed(3)
    plain, state = model(x), torch.get_rng_state()
    watching(model, entry(Draws, "0"))
    torch.manual_seed(3)
    assert torch.equal(model(x), plain)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_recomputation_opens_nothing(watching, use_reentrant):
    model = nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1))
    sequential = watching(model, entry(Journal, "0"))
    checkpoint(model, torch.ones(1, 1, requires_grad=True), use_reentrant=use_reentrant).sum().backward()
    assert lines(sequential) == ["enter 0", "leave 0", "process 0"]


def test_calls_that_are_not_captured_open_nothing(watching):
    cell = nn.Identity()
    model = nn.Sequential(*[cell] * 20)
    sequential = watching(model, entry(Journal, "0"))
    model(ONE)
    assert len(lines(sequential)) == 3 * 16


def test_without_one_no_hook_is_added_before_the_layer(watching):
    class Plain(ForwardDebugger):
        def process_forward(self, module, input, output):
            return {}

    model = nn.Sequential(nn.ReLU())
    watching(model, entry(Plain, "0"))
    assert hook_count(model[0]) == 1


def test_an_inner_layer_of_an_encoder_is_seen_where_torch_would_fuse_it_and_copies_need_nothing_of_ours(watching):
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    model = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False).eval()
    sequential = watching(model, entry(Journal, "layers.0.linear1"))
    with torch.no_grad():
        model(torch.randn(2, 3, 8))
    assert lines(sequential)[0].startswith("enter")
    assert b"debuggers" not in pickle.dumps(model)
    sequential.enabled = False
    assert not hook_count(model)
