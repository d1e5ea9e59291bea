"""What is kept of the gradients that optimizers have stepped with, and how much of it at most."""

import gc
import weakref

import pytest
import torch

from debuggers.instrumentation import kept_gradients
from debuggers.instrumentation.kept_gradients import KeptGradients


@pytest.fixture(autouse=True)
def room_for_two(monkeypatch):
    monkeypatch.setattr(kept_gradients, "MOST_HELD", 2 * 4 * 100)


def parameter(number=1.0):
    made = torch.nn.Parameter(torch.zeros(100))
    made.grad = torch.full((100,), float(number))
    return made


def test_what_the_training_still_has_takes_no_room():
    kept, parameters = KeptGradients(), [parameter(number) for number in range(9)]
    for place, one in enumerate(parameters):
        kept.keep(place, [one], is_first=False)
    kept.weigh_all()
    assert not kept.left_out
    assert all(kept.gradient_of(one) is one.grad for one in parameters)


@pytest.mark.parametrize("is_first", [False, True])
def test_of_freed_gradients_as_many_are_kept_as_fit(is_first):
    kept, parameters, freed = KeptGradients(), [parameter(number) for number in range(4)], []
    for place, one in enumerate(parameters):
        kept.keep(place, [one], is_first=is_first)
        freed.append(weakref.ref(one.grad))
        one.grad = None
        kept.weigh(place)
    assert kept.left_out == {2, 3}
    assert [None if (found := kept.gradient_of(one)) is None else found[0].item() for one in parameters] == [
        0, 1, None, None,
    ]  # fmt: skip
    gc.collect()
    # Of a copy the gradient itself is not held either.
    assert [one() is None for one in freed] == ([True] * 4 if is_first else [False, False, True, True])
    kept.clear()
    for place, one in enumerate(parameters):
        one.grad = torch.ones(100)
        kept.keep(place, [one], is_first=False)
    assert [one in kept for one in parameters] == [True, True, False, False]


def test_copies_take_room_and_are_not_made_without():
    kept, parameters = KeptGradients(), [parameter() for _ in range(3)]
    for _ in range(2):
        for place, one in enumerate(parameters):
            one.grad = torch.ones(100)
            kept.keep(place, [one], is_first=False)
            one.grad.add_(1)
        seen = [kept.gradient_of(one) for one in parameters]
        kept.learn()
        kept.clear()
    assert [None if one is None else one[0].item() for one in seen] == [1, 1, None]
    assert kept.left_out == {2}


def test_a_change_before_the_gradient_is_freed_is_learnt():
    kept, one = KeptGradients(), parameter()
    kept.keep(0, [one], is_first=True)
    one.grad.add_(1)
    one.grad = None
    kept.weigh(0)
    assert kept.gradient_of(one)[0] == 1
    kept.learn()
    kept.clear()
    one.grad = torch.ones(100)
    kept.keep(0, [one], is_first=False)
    assert kept.gradient_of(one) is not one.grad


def test_without_the_scale_of_a_scaler_there_are_copies_too():
    kept, parameters = KeptGradients(), [parameter(8.0) for _ in range(4)]
    for place, one in enumerate(parameters):
        kept.keep_unscaled(place, [one], torch.tensor(4.0), is_last=place == 3)
    assert kept.left_out == {2}
    assert [one in kept for one in parameters] == [True, True, False, True]
    assert kept.gradient_of(parameters[3])[0] == 2
