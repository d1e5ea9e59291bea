"""What is expected of the function by which backward passes enter the engine; needs nothing but torch."""

import pytest
import torch

from debuggers.torch_internals import backward_entry


@pytest.fixture
def calls():
    found, before = [], backward_entry.current_entry()

    def noting(roots, *arguments, **keywords):
        found.append((roots, backward_entry.fills_gradients(keywords)))
        return before(roots, *arguments, **keywords)

    backward_entry.replace_entry(noting)
    assert backward_entry.current_entry() is noting
    yield found
    backward_entry.replace_entry(before)


@pytest.mark.parametrize("backward", [torch.Tensor.backward, torch.autograd.backward])
def test_backward_calls_it_with_its_tensors_and_fills_gradients(calls, backward):
    x = torch.ones(2, requires_grad=True)
    loss = x.sum()

    backward(loss)

    assert calls == [((loss,), True)]
    assert x.grad is not None


def test_grad_calls_it_and_fills_none(calls):
    x = torch.ones(2, requires_grad=True)

    torch.autograd.grad(x.sum(), x)

    assert [fills for _, fills in calls] == [False]
    assert x.grad is None


def test_activation_checkpointing_calls_it_again_within_a_pass(calls):
    x = torch.ones(2, requires_grad=True)

    torch.utils.checkpoint.checkpoint(torch.exp, x, use_reentrant=True).sum().backward()

    assert len(calls) == 2


def test_an_entry_is_a_function_of_tensors():
    assert backward_entry.Entry == backward_entry.Callable[..., backward_entry.Any]
