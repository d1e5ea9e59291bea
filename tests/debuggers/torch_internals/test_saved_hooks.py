"""What is expected of torch about hooks that pack saved tensors, in all versions; needs nothing but torch."""

import threading

import pytest
import torch
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks
from torch.utils.checkpoint import checkpoint

from debuggers.torch_internals import saved_hooks


def node():
    return torch.rand(3, requires_grad=True).exp().grad_fn


def packed(one):
    return saved_hooks.is_packed(one, one._raw_saved_result)


def same(tensor):
    return tensor


@pytest.mark.parametrize("hooks", [lambda: saved_tensors_hooks(same, same), save_on_cpu])
def test_it_is_known_what_was_saved_within_hooks(hooks):
    with hooks():
        first = node()
        with hooks():
            inner = node()
        last = node()
        assert packed(first)
        assert packed(last)
    after = node()

    assert [packed(one) for one in (first, inner, last, after)] == [True, True, True, False]


def test_hooks_that_a_failing_block_leaves_are_gone():
    with pytest.raises(ZeroDivisionError), save_on_cpu():
        _ = 1 / 0

    assert not packed(node())


def test_a_checkpoint_packs_what_is_made_in_it():
    inside = []

    def function(x):
        y = x.exp()
        inside.append(y.grad_fn)
        return y * 2

    result = checkpoint(function, torch.rand(3, requires_grad=True), use_reentrant=False)

    assert packed(inside[0])
    loss = result.exp()
    assert not packed(loss.grad_fn)
    loss.sum().backward()
    assert not packed(node())


def test_hooks_of_another_thread_are_none_of_this_one_when_they_have_gone():
    def other():
        with save_on_cpu():
            node()

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()

    ours = node()
    for _ in range(100):  # numbers are counted by thread
        ours = node()
    assert not packed(ours)


def test_torch_tells_it_from_2_11_on():
    assert (tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 11)) == saved_hooks.TELLS
