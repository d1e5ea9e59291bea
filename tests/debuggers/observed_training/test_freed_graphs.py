"""A watched training keeps no graph of a step that is over, however the loop calls its model."""

import gc

import pytest
import torch
from torch import nn
from torch.nn import functional

import stepscope

LETTERS, STEPS = 12, 30


class Whole(nn.Module):
    """Calls its parts itself."""

    def __init__(self, parts):
        super().__init__()
        self.parts = parts

    def forward(self, codes):
        return through(self.parts, codes)


def through(parts, codes):
    """What the parts make of codes, one after the other; of a recurrence, its outputs."""
    for part in parts:
        found = part(codes)
        codes = found[0] if isinstance(found, tuple) else found
    return codes


def recurrent():
    return nn.GRU(8, 8, batch_first=True)


def attending():
    return nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)


@pytest.mark.parametrize("between", [recurrent, attending, nn.Identity])
@pytest.mark.parametrize("in_parts", [False, True])
@pytest.mark.parametrize("fails", [False, True])
def test_no_graph_outlives_its_step(between, in_parts, fails):
    torch.manual_seed(0)
    parts = nn.ModuleList([nn.Embedding(LETTERS, 8), between(), nn.Linear(8, LETTERS)])
    model = parts if in_parts else Whole(parts)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with stepscope.watch(model, optimizer) as session:
        for step in range(STEPS):
            codes = torch.randint(LETTERS, (6, 5))
            if fails and step % 5 == 4:
                with pytest.raises(IndexError):
                    model(codes + LETTERS) if not in_parts else through(parts, codes + LETTERS)
            scores = through(parts, codes) if in_parts else model(codes)
            loss = functional.cross_entropy(scores.flatten(0, 1), codes.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        del scores, loss
        gc.collect()
        nodes = [one for one in gc.get_objects() if type(one).__name__ == "EmbeddingBackward0"]
        assert nodes == []
        assert "memory_leak" not in {cause.code for cause in session.report().causes}
