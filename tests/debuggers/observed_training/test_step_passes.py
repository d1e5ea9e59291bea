"""The backward passes of a step, where a loop tells of each of them as of a step."""

import torch
from torch import nn
from torch.nn import functional

import stepscope

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
