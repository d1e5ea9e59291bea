"""What is expected of the function that scales gradients when they are clipped; needs nothing but torch."""

import sys

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


@pytest.mark.parametrize(
    ("clip", "expected"),
    [
        (lambda weights: clip_grad_norm_(weights, 1.0), 2.0),
        (lambda weights: clip_grad_norm_(weights, 1.0, float("inf")), float("inf")),
        (lambda weights: clip_grad_norm_(weights, 1.0, norm_type="inf"), float("inf")),
        (lambda weights: clip_entry.current_clip_entry()(weights, 1.0, torch.tensor(5.0)), None),
    ],
)
def test_the_order_of_a_norm_is_known_where_torch_has_computed_it(clip, expected):
    found, before = [], clip_entry.current_clip_entry()

    def noting(*arguments):
        found.append(clip_entry.norm_order(sys._getframe(1)))
        return before(*arguments)

    weight = torch.nn.Parameter(torch.zeros(2))
    weight.grad = torch.tensor([3.0, 4.0])
    clip_entry.replace_clip_entry(noting)
    try:
        clip([weight])
    finally:
        clip_entry.replace_clip_entry(before)
    assert found == [expected]
    assert clip_entry.norm_order(None) is None
