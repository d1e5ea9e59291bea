"""A plain and a watched copy of one model, stepped in turn; and the models and data of the benchmark."""

import time
from contextlib import contextmanager

import pytest
import torch
from torch import nn
from watched.cases import FULL, GROUPS, TINY
from watched.pairs import measure_side
from watched.sides import Watching, floor

STEPS = 3


@contextmanager
def meddler(model, optimizer, folder):
    def change(step, loss):
        for parameter in model.parameters():
            assert parameter.grad is not None
            parameter.grad.mul_(1 + 1e-6)

    yield Watching(change)


def test_every_pair_is_kept(tmp_path):
    found = measure_side(TINY["transformer"], floor, tmp_path, STEPS, seconds=1e9)
    assert len(found["plain_ms"]) == len(found["watched_ms"]) == STEPS
    assert min(found["plain_ms"] + found["watched_ms"] + found["quiet_ms"]) > 0


def test_a_side_that_changes_the_training_is_found_out(tmp_path):
    assert measure_side(TINY["large"], floor, tmp_path, STEPS, seconds=1e9)["same_weights"]
    assert not measure_side(TINY["large"], meddler, tmp_path, STEPS, seconds=1e9)["same_weights"]


def test_a_side_hears_of_every_watched_step_and_is_paused_for_the_plain_ones(tmp_path):
    steps: list[int] = []
    pauses: list[float] = []

    @contextmanager
    def pause():
        begun = time.perf_counter()
        yield
        pauses.append(1e3 * (time.perf_counter() - begun))

    @contextmanager
    def listener(model, optimizer, folder):
        yield Watching(lambda step, loss: steps.append(step), pause)

    case = TINY["many"]
    found = measure_side(case, listener, tmp_path, STEPS, seconds=1e9)
    watched = case.warmup + STEPS
    assert steps == list(range(2 * case.warmup, 2 * case.warmup + watched))
    assert all(pause >= plain for pause, plain in zip(pauses[-STEPS:], found["plain_ms"], strict=True))


@pytest.mark.slow
def test_the_time_limit_ends_a_slow_side_after_a_few_pairs(tmp_path):
    assert len(measure_side(TINY["many"], floor, tmp_path, 1000, seconds=0.0)["plain_ms"]) == 5


@pytest.mark.parametrize(
    ("name", "tensors", "values"),
    [
        ("transformer", 53, 3_672_552),
        ("resnet", 161, 25_557_032),  # as published for ResNet-50
        ("many", 2000, 272_000),
        ("large", 77, 119_378_768),
        ("tensors-250", 250, 34_000),
        ("width-2048", 16, 33_570_816),
    ],
)
def test_the_models_have_the_sizes_that_are_promised(name, tensors, values):
    with torch.device("meta"):
        sizes = [parameter.numel() for parameter in FULL[name].build().parameters()]
    assert (tensors, values) == (len(sizes), sum(sizes))


@pytest.mark.slow
@pytest.mark.parametrize("case", TINY.values(), ids=TINY)
def test_every_parameter_of_a_model_gets_a_gradient(case):
    model = case.build()
    inputs, targets = case.batches()[0]
    torch.autograd.backward(nn.functional.cross_entropy(model(inputs).flatten(0, -2), targets))
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in model.parameters())


def test_tiny_and_full_cases_have_the_same_names():
    assert list(TINY) == list(FULL) == GROUPS["all"]
