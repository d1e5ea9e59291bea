"""Few gradients stand for all as long as all change alike."""

import pytest
import torch

from debuggers.observed_training import gradient_marks
from debuggers.observed_training.gradient_marks import ALIKE, GradientMarks


def parameters(count=8):
    return [torch.nn.Parameter(torch.ones(3)) for _ in range(count)]


def fill(some, times=1):
    for _ in range(times):
        sum((one * 2).sum() for one in some).backward()


def train(marks, some, *, to_none):
    """One step; returns what is noted before and after its pass, and after its end, in which gradients are clipped."""
    for one in some:
        if to_none:
            one.grad = None
        elif one.grad is not None:
            one.grad.zero_()
    noted = [marks.note()]
    fill(some)
    noted.append(marks.note())
    for one in some:
        one.grad.mul_(0.5)
    return [*noted, marks.note()]


@pytest.fixture
def looks(monkeypatch):
    """The gradients that were looked at."""
    found = []
    looked = gradient_marks._gradient_of
    monkeypatch.setattr(gradient_marks, "_gradient_of", lambda one: (found.append(one), looked(one))[1])
    return found


@pytest.mark.parametrize("to_none", [True, False])
def test_two_parameters_say_the_same_as_all(looks, to_none):
    some = parameters()
    marks = GradientMarks(some)
    first = train(marks, some, to_none=to_none)
    later = [train(marks, some, to_none=to_none) for _ in range(5)]
    assert all(noted == later[0] for noted in later)
    assert later[0] == [1, 1, 1]
    assert first[1:] == [1, 1]
    looks.clear()
    train(marks, some, to_none=to_none)
    assert {id(one) for one in looks} == {id(some[0]), id(some[-1])}
    assert len(looks) == 3 * 2


def test_presence_is_known_of_two_parameters():
    some = parameters()
    marks = GradientMarks(some)
    for _ in range(ALIKE):
        train(marks, some, to_none=True)
    assert marks.present
    for one in some:
        one.grad = None
    assert marks.note() == 1
    assert not marks.present
    assert marks.are_zero()
    fill(some)
    assert marks.note() == 1
    assert marks.present


def test_all_are_looked_at_from_when_the_two_differ(looks):
    some = parameters()
    marks = GradientMarks(some)
    for _ in range(ALIKE):
        train(marks, some, to_none=True)
    fill(some[:1])
    assert marks.note() == 1
    looks.clear()
    fill(some[3:4])  # neither the first nor the last
    assert marks.note() == 1
    assert len(looks) == 8


@pytest.mark.parametrize("odd", [0, 3])
def test_all_are_looked_at_where_they_never_change_alike(looks, odd):
    some = parameters()
    marks = GradientMarks(some)
    fill(some)
    for _ in range(3 * ALIKE):
        fill(some[odd : odd + 1])
        marks.note()
    looks.clear()
    fill(some[odd : odd + 1])
    assert marks.note() == 1
    assert len(looks) == 8


def test_parameters_without_gradients_differ_from_others(looks):
    some = parameters()
    marks = GradientMarks(some)
    for _ in range(3 * ALIKE):
        train(marks, some[1:], to_none=True)
    looks.clear()
    marks.note()
    assert len(looks) == 8


def test_zeros_are_looked_for_in_all():
    some = parameters()
    marks = GradientMarks(some)
    for _ in range(ALIKE):
        train(marks, some, to_none=False)
    for one in some[:3] + some[4:]:
        one.grad.zero_()
    assert marks.note() == 1
    assert not marks.are_zero()
    some[3].grad.zero_()
    marks.note()
    assert marks.are_zero()


def test_no_more_than_two_parameters_are_always_all():
    some = parameters(2)
    marks = GradientMarks(some)
    assert [train(marks, some, to_none=True) for _ in range(4)][-1] == [1, 1, 1]
