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
