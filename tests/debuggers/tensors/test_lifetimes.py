"""Live bytes are those of storages, each counted once; names that pile up are found, and nothing is kept alive."""

import gc
import warnings
import weakref

import numpy as np
import pytest
import torch

from debuggers.tensors.lifetimes import TensorLifetimes, bytes_of


@pytest.fixture
def lifetimes():
    return TensorLifetimes()


def test_bytes_live_as_long_as_their_tensor(lifetimes):
    small, large = torch.ones(10), torch.ones(100)
    lifetimes.watch("small", small)
    lifetimes.watch("large", large)
    assert list(lifetimes.live_bytes().items()) == [("large", 400), ("small", 40)]
    del large
    assert lifetimes.live_bytes() == {"small": 40}
    del small
    assert lifetimes.live_bytes() == {}


def test_nothing_is_kept_alive(lifetimes):
    tensor, array = torch.ones(10), np.ones(10)
    references = [weakref.ref(tensor), weakref.ref(array)]
    lifetimes.watch("tensor", tensor)
    lifetimes.watch("array", array)
    lifetimes.observe(0)
    del tensor, array
    assert [reference() for reference in references] == [None, None]
    lifetimes.observe(1)
    assert (lifetimes._refs, lifetimes._live, lifetimes._history) == ({}, {}, {})


def test_views_share_a_storage_which_counts_once_and_lives_with_the_last_of_them(lifetimes):
    whole = torch.ones(10, 10)
    part = whole[2:4]
    assert (lifetimes.watch("whole", whole), lifetimes.watch("part", part)) == (400, 400)
    assert lifetimes.live_bytes() == {"whole": 400}
    del whole
    assert lifetimes.live_bytes() == {"whole": 400}
    del part
    assert lifetimes.live_bytes() == {}


def test_an_array_counts_as_the_one_that_owns_its_memory(lifetimes):
    array, tensor = np.ones((10, 10)), torch.ones(3)
    lifetimes.watch("array", array[::2, 3:])
    lifetimes.watch("same", torch.from_numpy(array).numpy()[1:])
    lifetimes.watch("tensor", tensor)
    lifetimes.watch("of tensor", tensor.numpy()[1:])
    assert lifetimes.live_bytes()["array"] == 800
    assert "of tensor" not in lifetimes.live_bytes()


def compressed(layout):
    starts, indices = torch.arange(4), torch.arange(3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch calls the layout a beta
        return torch.sparse_compressed_tensor(starts, indices, torch.ones(3), (3, 3), layout=layout)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(torch.eye(3).to_sparse_coo(), 3 * 4 + 2 * 3 * 8, id="coo"),
        pytest.param(compressed(torch.sparse_csr), 3 * 4 + 4 * 8 + 3 * 8, id="csr"),
        pytest.param(compressed(torch.sparse_csc), 3 * 4 + 4 * 8 + 3 * 8, id="csc"),
        pytest.param(torch.ones(2, device="meta"), 8, id="meta"),
        pytest.param([1.0, 2.0], 0, id="list"),
    ],
)
def test_the_bytes_of_all_parts_count(value, expected):
    assert bytes_of(value) == expected


def test_a_storage_that_only_a_graph_holds_lives(lifetimes):
    weight = torch.ones(10, requires_grad=True)
    activation = (2 * weight).exp()
    lifetimes.watch("activation", activation)
    loss = activation.sum()
    del activation
    assert lifetimes.live_bytes() == {"activation": 40}
    loss.backward()
    assert lifetimes.live_bytes() == {}


def test_a_graph_that_is_kept_by_summing_losses_is_found(lifetimes):
    weight = torch.ones(10, requires_grad=True)
    total = torch.zeros(())
    for step in range(7):
        activation = (2 * weight).exp()
        lifetimes.watch("activation", activation)
        total = total + activation.sum()  # instead of activation.sum().item()
        del activation
        assert (lifetimes.leaks() != []) == (step > 5)
        lifetimes.observe(step)
    (leak,) = lifetimes.leaks()
    assert (leak.name, leak.steps, leak.live_tensors) == ("activation", (1, 2, 3, 4, 5, 6), (2, 3, 4, 5, 6, 7))
    assert leak.live_bytes == (80, 120, 160, 200, 240, 280)
    assert "2 live tensors with 80 bytes at step 1, 7 with 280 at step 6" in leak.message
    del total
    assert lifetimes.live_bytes() == {}


def test_a_usual_loop_has_no_leaks(lifetimes):
    weight = torch.nn.Parameter(torch.ones(10))
    recent = []
    for step in range(30):
        output = weight * torch.ones(1 + step * 7 % 5, 1)
        lifetimes.watch("weight", weight)
        lifetimes.watch(f"output of step {step}", output)
        lifetimes.watch("recent", output.detach().clone())
        recent = [*recent[-2:], output.detach().clone()]
        lifetimes.watch("recent", recent[-1])
        lifetimes.observe(step)
    assert lifetimes.leaks() == []
    assert len(lifetimes._history) <= 3


def test_growth_that_pauses_is_no_leak_yet(lifetimes):
    kept = []
    for step in range(12):
        if step % 5:
            kept.append(torch.ones(1))
            lifetimes.watch("x", kept[-1])
        else:
            lifetimes.watch("x", kept[-1] if kept else torch.ones(1))
        lifetimes.observe(step)
    assert lifetimes.leaks() == []


def test_steps_at_which_a_name_is_not_seen_do_not_count(lifetimes):
    kept = []
    for step in range(60):
        if step % 10 == 0:  # as in a validation at every tenth step
            kept.append(torch.ones(1))
            lifetimes.watch("validation", kept[-1])
        lifetimes.observe(step)
    assert [leak.steps for leak in lifetimes.leaks()] == [(0, 10, 20, 30, 40, 50)]


def test_one_tensor_that_grows_for_ten_steps_is_found(lifetimes):
    cache = torch.ones(0)
    for step in range(11):
        assert lifetimes.leaks() == []
        cache = torch.cat([cache, torch.ones(10)])
        lifetimes.watch("cache", cache)
        lifetimes.observe(step)
    (leak,) = lifetimes.leaks()
    assert set(leak.live_tensors) == {1}
    assert leak.live_bytes == tuple(range(40, 441, 40))


def test_a_cycle_is_freed_by_the_garbage_collector(lifetimes):
    cycle = {"tensor": torch.ones(5)}
    cycle["itself"] = cycle
    lifetimes.watch("cycle", cycle["tensor"])
    del cycle
    gc.collect()
    assert lifetimes.live_bytes() == {}


def test_it_may_die_before_what_it_follows():
    lifetimes = TensorLifetimes()
    tensor = torch.ones(3)
    lifetimes.watch("x", tensor)
    del lifetimes
    gc.collect()
    del tensor
