"""Which steps of several optimizers make one step of a training, by the order in which they come."""

from contextlib import suppress

import pytest
import torch

from debuggers.instrumentation.hooks import Hooks
from debuggers.instrumentation.joined_optimizers import JoinedOptimizers


class Loop:
    """Optimizers of one parameter each, whose rounds are written down; ``p`` in an order is a backward pass."""

    def __init__(self, kinds):
        self.parameters = {kind: torch.nn.Parameter(torch.ones(2)) for kind in kinds}
        self.optimizers = {kind: torch.optim.SGD([one], 0.1) for kind, one in self.parameters.items()}
        self.joined = JoinedOptimizers(list(self.optimizers.values()))
        self.rounds = self.joined.rounds
        self.hooks, self.ended, self.seen = Hooks(), [], ""
        for kind, optimizer in self.optimizers.items():
            self.hooks.add_gradients_ready(optimizer, self.rounds.begins)
            self.hooks.add_optimizer_post_step(optimizer, self.rounds.ends)
            self.parameters[kind].grad = torch.ones(2)
        self.hooks.add_before_each_step(self.joined, self._add)
        self.hooks.add_gradients_ready(self.joined, self._ready)
        self.hooks.add_optimizer_post_step(self.joined, lambda one: self._end())

    def _kind(self, optimizer):
        return next(kind for kind, one in self.optimizers.items() if one is optimizer)

    def _add(self, optimizer):
        self.seen += self._kind(optimizer)

    def _ready(self, optimizer):
        self.seen += "" if self.rounds.is_late else self._kind(optimizer)

    def _end(self):
        self.ended.append(self.seen)
        self.seen = ""

    def run(self, order):
        for one in order:
            if one == "p":
                self.rounds.pass_begins()
            else:
                self.optimizers[one].step()
        return self.ended


@pytest.mark.parametrize(
    ("kinds", "order", "rounds"),
    [
        ("ab", "abababab", ["ab"] * 4),
        ("ab", "papbpapb", ["ab"] * 2),
        ("abc", "cabcab", ["cab"] * 2),  # in the order of the steps, not of the list
        ("ab", "aaa", ["a", "a", "a"]),
        ("ab", "aaabaaab", ["a", "a", "a", "b", "a", "a", "a", "b"]),
        ("ab", "abbab", ["ab", "b", "ab"]),
        ("ab", "ababab" + "a" + "abab", ["ab"] * 3 + ["a"] + ["ab"] * 2),
        ("ab", "ababab" + "aaa" + "ab", ["ab"] * 3 + ["a", "a", "a", "a", "b"]),
        ("ab", "abab" + "aaa" + "ab" + "abab", ["ab", "ab", *"aaa", *"ab", "ab", "ab"]),
        (
            "ab",
            "abab" + "aa" + "abab" + "aa" + "ababab" + "ab",
            ["ab", "ab", *"aa", *"ab", "ab", *"aa", *"ababab", "ab"],
        ),
        ("ab", "a" + "abab", ["a", "ab", "ab"]),
        ("ab", "aa" + "abab", [*"aa", *"ab", "ab"]),
        ("ab", "aba" * 6, ["ab", *("aab" * 5), "a"]),
    ],
    ids=[
        "in turn",
        "alternating",
        "order",
        "one never",
        "every third",
        "one twice",
        "one skipped",
        "one ends",
        "one pauses",
        "one pauses twice",
        "the first skipped",
        "the first two skipped",
        "every second",
    ],
)
def test_rounds_by_the_order_of_steps(kinds, order, rounds):
    loop = Loop(kinds)
    found = loop.run(order)
    loop.rounds.finish()
    steps = [one for one in "".join(found) if one != "p"]
    assert steps == [one for one in order if one != "p"]  # each step in one round, none twice
    assert found == rounds
    loop.hooks.remove()
    assert not loop.optimizers["a"]._optimizer_step_pre_hooks


def test_turns_are_told_apart_by_backward_passes():
    together, alternating = Loop("ab"), Loop("ab")
    together.run("pabpab")
    alternating.run("papbpapb")
    assert (together.rounds.alternates, alternating.rounds.alternates) == (False, True)


@pytest.mark.parametrize("change", ["in place", "to none", "not at all"])
def test_a_gradient_is_that_of_its_own_step(change):
    loop, seen = Loop("ab"), []
    loop.hooks.add_gradients_ready(
        loop.joined, lambda one: seen.append([loop.rounds.gradient_of(p).clone() for p in loop.parameters.values()])
    )
    for number in range(3):
        for kind in "ab":
            loop.parameters[kind].grad = torch.full((2,), number + 1.0)
        loop.run("a")
        if change == "in place":
            loop.parameters["a"].grad.add_(100)
        elif change == "to none":
            loop.optimizers["a"].zero_grad()
        loop.run("b")
    assert [[one.tolist() for one in pair] for pair in seen] == [[[n, n], [n, n]] for n in (1.0, 2.0, 3.0)]


def test_a_large_gradient_is_copied_once_it_was_seen_to_change():
    large, small = torch.nn.Parameter(torch.zeros((1 << 22) + 1)), torch.nn.Parameter(torch.zeros(2))
    optimizers = [torch.optim.SGD([one], 0.1) for one in (large, small)]
    rounds, seen = JoinedOptimizers(optimizers).rounds, []
    rounds.on_begin(lambda one: seen.append(rounds.gradient_of(large)))
    for _ in range(2):
        large.grad, small.grad = torch.ones_like(large), torch.ones(2)
        rounds.begins(optimizers[0])
        rounds.ends(optimizers[0])
        large.grad.add_(1)
        rounds.begins(optimizers[1])
        rounds.ends(optimizers[1])
    assert seen[0] is None  # nothing is known of what was changed, rather than something wrong
    assert torch.equal(seen[1], torch.ones_like(large))


def test_what_steps_at_other_times_has_no_gradient_in_a_round():
    loop, seen = Loop("ab"), []
    loop.run("ab" + "aa")
    loop.rounds.on_begin(lambda one: seen.append([loop.rounds.gradient_of(p) for p in loop.parameters.values()]))
    loop.run("a")
    assert seen[0][0] is not None
    assert seen[0][1] is None


@pytest.mark.parametrize("place", [0, 1])
def test_a_gradient_whose_scale_cannot_be_taken_out_for_want_of_memory_is_none_of_the_round(place):
    class Large(torch.Tensor):
        def __truediv__(self, other):
            raise torch.OutOfMemoryError("out of memory")

    parameters = [torch.nn.Parameter(torch.ones(2)) for _ in range(2)]
    members = [torch.optim.SGD([one], 0.1, fused=True) for one in parameters]
    for one, member in zip(parameters, members, strict=True):
        one.grad = torch.full((2,), 8.0)
        member.grad_scale, member.found_inf = torch.tensor(4.0), torch.zeros(1)  # as a GradScaler hands them over
    parameters[place].grad = parameters[place].grad.as_subclass(Large)
    rounds, seen = JoinedOptimizers(members).rounds, []
    rounds.guard = lambda place: suppress(torch.OutOfMemoryError)
    rounds.on_begin(lambda member: seen.extend(map(rounds.gradient_of, parameters)))
    for member in members:
        rounds.begins(member)
        rounds.ends(member)
    assert seen[place] is None
    assert seen[1 - place].tolist() == [2.0, 2.0]
    assert rounds.is_left_out(parameters[place])
