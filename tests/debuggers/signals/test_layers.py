"""The share of dead units of a rectifier, which is that of the layer before it where nothing comes between."""

import pytest
import torch
from torch import nn

import stepscope


class Rectified(nn.Module):
    """Half of the units are dead in ``first``, whose output is changed in place before it is rectified, or not."""

    def __init__(self, *, changed, inplace):
        super().__init__()
        self.first, self.second, self.changed = nn.Linear(64, 10), nn.ReLU(inplace=inplace), changed
        with torch.no_grad():
            self.first.weight.zero_()
            self.first.bias.copy_(torch.tensor([-1.0, 1.0] * 5))

    def forward(self, inputs):
        outputs = self.first(inputs)
        return self.second(outputs.sub_(2.0) if self.changed else outputs)


@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize(("changed", "share"), [(False, 0.5), (True, 1.0)])
def test_a_rectifier_is_judged_by_what_it_was_given(changed, share, inplace):
    model = Rectified(changed=changed, inplace=inplace)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    with stepscope.DebugSession(model, optimizer, on_error="raise") as session:
        for _ in range(2):  # what reads the first layer's output is known from the first step on
            optimizer.zero_grad()
            model(torch.ones(8, 64)).sum().backward()
            session.step()
            optimizer.step()
        evidence = session.evidence()
    assert evidence.of_tensors("dead_units")["second"].values.tolist() == [share, share]
