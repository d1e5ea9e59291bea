"""Backward passes are told with their roots, in any loop, and nothing of it stays."""

import threading

import pytest
import torch
from torch import nn

from debuggers.observed_training.backward_passes import BackwardObservation
from debuggers.torch_internals.backward_entry import current_entry, replace_entry


@pytest.fixture(autouse=True)
def nothing_stays():
    before = current_entry()
    yield
    assert current_entry() is before


class Passes:
    """The passes that were told: their roots, and how they ended."""

    def __init__(self):
        self.roots, self.ends = [], []
        self.observation = BackwardObservation(self.begin)

    def begin(self, roots):
        self.roots.append([root.detach().clone() for root in roots])
        return self.ends.append

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.observation.remove()


def loss_of(x):
    return (x * x).sum()


def test_a_pass_is_told_with_its_root_and_its_end():
    x = torch.ones(2, requires_grad=True)
    with Passes() as passes:
        loss_of(x).backward()
        torch.autograd.backward([loss_of(x), 3 * loss_of(x)])

    assert passes.roots == [[2.0], [2.0, 6.0]]
    assert passes.ends == [True, True]
    loss_of(x).backward()
    assert len(passes.roots) == 2


def test_the_gradient_is_the_same():
    x, y = (torch.linspace(0, 1, 5).requires_grad_() for _ in range(2))
    loss_of(x).backward()
    with Passes():
        loss_of(y).backward()

    assert torch.equal(x.grad, y.grad)


def test_an_exception_passes_and_is_told():
    x = torch.ones(2, requires_grad=True)

    def fail(gradient):
        raise KeyError("mine")

    x.register_hook(fail)
    with Passes() as passes, pytest.raises(KeyError, match="mine"):
        loss_of(x).backward()

    assert passes.ends == [False]


def test_an_observer_that_fails_stops_nobody(caplog):
    def fail(*_):
        raise ValueError("ours")

    x = torch.ones(2, requires_grad=True)
    at_begin, at_end = BackwardObservation(fail), BackwardObservation(lambda roots: fail)
    with Passes() as passes:
        loss_of(x).backward()
    at_begin.remove()
    at_end.remove()

    assert passes.ends == [True]
    assert x.grad is not None
    assert "could not be observed" in caplog.text


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_passes_inside_of_a_pass_are_not_told(use_reentrant):
    x = torch.ones(2, requires_grad=True)
    with Passes() as passes:
        torch.utils.checkpoint.checkpoint(torch.exp, x, use_reentrant=use_reentrant).sum().backward()

    assert len(passes.roots) == 1


def test_double_backward_is_two_passes_and_grad_is_none():
    x = torch.ones(2, requires_grad=True)
    with Passes() as passes:
        (gradient,) = torch.autograd.grad(loss_of(x), x, create_graph=True)
        gradient.sum().backward()
        loss_of(x).backward(create_graph=True)
    x.grad = None

    assert passes.roots == [[4.0], [2.0]]


def test_each_thread_has_its_own_passes():
    x, y = (torch.ones(2, requires_grad=True) for _ in range(2))
    inside = []

    def train_other(gradient):
        other = threading.Thread(target=lambda: loss_of(y).backward())
        other.start()
        other.join(30)
        inside.append(not other.is_alive())

    x.register_hook(train_other)
    with Passes() as passes:
        loss_of(x).backward()

    assert inside == [True]
    assert len(passes.ends) == 2


def test_an_entry_of_somebody_else_around_ours_stays_and_ours_passes_on():
    x, theirs, original = torch.ones(2, requires_grad=True), [], current_entry()
    with Passes() as passes:
        inner = current_entry()

        def noting(*arguments, **keywords):
            theirs.append(1)
            return inner(*arguments, **keywords)

        replace_entry(noting)
        loss_of(x).backward()
    assert current_entry() is noting
    loss_of(x).backward()
    assert (len(theirs), len(passes.roots)) == (2, 1)
    with Passes() as again:
        loss_of(x).backward()
    assert (len(theirs), len(again.roots)) == (3, 1)
    replace_entry(original)


def test_what_a_transformation_differentiates_is_no_pass():
    with Passes() as passes:
        torch.func.grad(loss_of)(torch.ones(2))
        torch.func.vmap(torch.func.grad(loss_of))(torch.ones(3, 2))

    assert not passes.roots


def test_code_that_is_compiled_is_not_cut_in_two():
    torch.compiler.reset()
    model = nn.Linear(2, 1)
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    with Passes() as passes:
        compiled(torch.ones(3, 2)).sum().backward()
        counted = torch._dynamo.testing.CompileCounter()

        @torch.compile(backend=counted)
        def step(x):
            model(x).square().mean().backward()

        step(torch.ones(3, 2))

    assert len(passes.ends) == 2
    assert counted.frame_count <= 2
