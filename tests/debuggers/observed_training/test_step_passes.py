"""The backward passes of a step, where a loop tells of each of them as of a step."""

import pytest
import torch
from torch import nn
from torch.nn import functional

import stepscope
from debuggers.observed_training.step_passes import UNDISTURBED

PASSES = 4


def test_passes_are_counted_up_to_the_step_of_the_optimizer():
    torch.manual_seed(0)
    model = nn.Linear(8, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with stepscope.DebugSession(model, optimizer) as session:
        for _ in range(6):
            optimizer.zero_grad()
            for _ in range(PASSES):
                loss = functional.cross_entropy(model(torch.randn(5, 8)), torch.randint(0, 3, (5,)))
                loss.backward()
                session.step(loss)
            optimizer.step()
        facts = session.evidence().facts
    assert facts.backward_passes == PASSES


@pytest.mark.parametrize(
    ("every", "looks_again", "tells"), [(0, True, True), (1, False, False)], ids=["rare", "always"]
)
def test_targets_are_looked_at_again_when_no_pass_has_been_dropped_for_a_while(every, looks_again, tells):
    """As after the steps that a GradScaler skips; not where each step drops one, which may be another model's loss."""
    torch.manual_seed(0)
    model = nn.Linear(8, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with stepscope.DebugSession(model, optimizer) as session:
        for step in range(4 * UNDISTURBED):
            for _ in range(2 if step == 1 or (every and step % every == 0) else 1):
                optimizer.zero_grad()
                functional.cross_entropy(model(torch.randn(5, 8)), torch.randint(0, 3, (5,))).backward()
            session.step()
            optimizer.step()
        evidence = session.evidence()
    looked = evidence["targets/classes"].steps
    assert bool(len(looked) and looked[-1] > UNDISTURBED) is looks_again
    assert (not any("targets" in one for one in evidence.facts.not_told)) is tells


class Sharpness(torch.optim.SGD):
    """Two passes a step, with the same batch: the second one where the loss is higher."""

    def step(self, closure):
        parameters = self.param_groups[0]["params"]
        with torch.enable_grad():
            closure()
        rises = [0.05 * parameter.grad / parameter.grad.norm() for parameter in parameters]
        torch._foreach_add_([parameter.data for parameter in parameters], rises)
        with torch.enable_grad():
            closure()
        torch._foreach_sub_([parameter.data for parameter in parameters], rises)
        return super().step()


@pytest.mark.parametrize(
    "optimizer_of",
    [
        pytest.param(lambda parameters: torch.optim.LBFGS(parameters, max_iter=4), id="lbfgs"),
        pytest.param(lambda parameters: Sharpness(parameters, lr=0.1), id="sharpness-aware"),
    ],
)
def test_a_batch_that_a_step_looks_at_several_times_is_taken_once(optimizer_of):
    torch.manual_seed(0)
    model, rows = nn.Linear(8, 3), 5
    optimizer = optimizer_of(model.parameters())
    with stepscope.watch(model, optimizer) as session:
        for _ in range(3 * UNDISTURBED):
            inputs, targets = torch.randn(rows, 8), torch.zeros(rows, dtype=torch.int64)

            def closure(inputs=inputs, targets=targets):
                optimizer.zero_grad()
                loss = functional.cross_entropy(model(inputs), targets)
                loss.backward()
                return loss

            optimizer.step(closure)
        report = session.report()
    evidence = report.evidence
    assert not evidence.facts.not_told
    looked = evidence["targets/classes"].steps
    assert looked[0] == 0 and looked[-1] > UNDISTURBED
    assert report.causes[0].code == "single_class_labels"


def test_another_models_pass_with_a_batch_of_its_own_is_left_out():
    """A generator's pass fills the gradients of its critic, which are zeroed before the critic's own pass."""
    torch.manual_seed(0)
    generator, critic = nn.Linear(2, 8), nn.Linear(8, 1)
    first, second = (torch.optim.SGD(one.parameters(), lr=0.1) for one in (generator, critic))
    with stepscope.watch(critic, second) as session:
        for _ in range(3 * UNDISTURBED):
            made = generator(torch.randn(5, 2))
            first.zero_grad()
            functional.binary_cross_entropy_with_logits(critic(made), torch.ones(5, 1)).backward()
            first.step()
            second.zero_grad()
            for rows, is_real in ((torch.randn(5, 8), 1.0), (made.detach(), 0.0)):
                functional.binary_cross_entropy_with_logits(critic(rows), torch.full((5, 1), is_real)).backward()
            second.step()
    report = session.report()
    assert any("targets" in gap for gap in report.verdict.gaps)


@pytest.mark.parametrize(
    ("how", "is_found"),
    [
        ("zeroed before each pass", True),
        ("zeroed before the first", False),
        ("put together by hand", False),  # as projected gradients are
        ("of inputs with a gradient", False),  # as a generator's, or those of an attack
        ("in a closure", False),
        ("two passes", False),  # the first may be another model's that shares the layer
    ],
)
def test_gradients_that_are_zeroed_before_each_pass_of_a_step_are_lost(how, is_found):
    torch.manual_seed(0)
    model = nn.Linear(8, 3)
    optimizer = torch.optim.LBFGS(model.parameters()) if how == "in a closure" else torch.optim.SGD(model.parameters())

    def backward(*, zeroes=True):
        if zeroes:
            optimizer.zero_grad()
        rows = torch.randn(5, 8, requires_grad=how == "of inputs with a gradient")
        loss = functional.cross_entropy(model(rows), torch.randint(0, 3, (5,)))
        loss.backward()
        return loss

    with stepscope.watch(model, optimizer) as session:
        for _ in range(2 * UNDISTURBED):
            if how == "in a closure":
                optimizer.step(backward)
                continue
            gradients = []
            for number in range(2 if how == "two passes" else PASSES):
                backward(zeroes=how != "zeroed before the first" or not number)
                gradients.append(model.weight.grad.clone())
            if how == "put together by hand":
                model.weight.grad = sum(gradients)
            optimizer.step()
        findings = [finding.kind for finding in session.report().findings]
    assert ("backward_passes_are_used" in findings) is is_found
