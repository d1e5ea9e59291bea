"""What is expected of the function that scales gradients when they are clipped; needs nothing but torch."""

import pytest
import torch
from torch.nn.utils import clip_grad_norm_  # as loops import it, before anything is replaced

from debuggers.torch_internals import clip_entry


@pytest.fixture
def calls():
    found, before = [], clip_entry.current_clip_entry()

    def noting(parameters, max_norm, *arguments, **keywords):
        found.append((parameters, max_norm))
        return before(parameters, max_norm, *arguments, **keywords)

    clip_entry.replace_clip_entry(noting)
    assert clip_entry.current_clip_entry() is noting
    yield found
    clip_entry.replace_clip_entry(before)


def test_clipping_calls_it_with_parameters_and_limit_before_it_changes_gradients(calls):
    layer = torch.nn.Linear(2, 1, bias=False)
    layer.weight.grad = torch.tensor([[3.0, 4.0]])

    norm = clip_grad_norm_(layer.parameters(), 1.0)

    ((parameters, limit),) = calls
    assert [id(one) for one in parameters] == [id(layer.weight)]
    assert (limit, norm.item()) == (1.0, 5.0)
    assert layer.weight.grad.norm().item() == pytest.approx(1.0)


def test_an_entry_is_a_function_of_parameters():
    assert clip_entry.ClipEntry == clip_entry.Callable[..., clip_entry.Any]
