"""Samples that influence each other: what goes along the first dimension goes over the batch if its rows come again."""

import numpy as np
import pytest
import torch
from made_evidence import STEPS, evidence

import stepscope
from debuggers.diagnosis.facts import Facts, InvariantFacts
from debuggers.diagnosis.rules.diagnose import diagnose


@pytest.mark.parametrize(("changed", "is_one"), [
    ({}, True),
    ({"repeated_rows": 0.15}, False),
    ({"duplicates": 0.4}, False),  # rows of padding
    ({"repeated": 1.0}, False),  # whole pieces of long series, or one batch over and over
    ({"batch_size": 32.0 + np.arange(STEPS) % 3}, False),  # pieces of any length
])  # fmt: skip
def test_rows_that_come_again_tell_that_the_first_dimension_is_the_batch(changed, is_one):
    along = InvariantFacts(name="first_is_batch", checked=9, broken=9, first_step=0, where="attention runs along")
    signals = {"repeated_rows": 0.5, "duplicates": 0.0, "repeated": 0.0, "batch_size": 32.0} | changed
    found = evidence(
        facts=Facts(steps=STEPS, invariants=(along,)),
        **{f"inputs/{name}": np.broadcast_to(values, STEPS) for name, values in signals.items()},
    )
    assert ("batch_mixing" in [cause.code for cause in diagnose(found)]) == is_one


class Tagger(torch.nn.Module):
    """Names a kind for each letter."""

    def __init__(self, *, batch_first):
        super().__init__()
        self.letters = torch.nn.Embedding(20, 16)
        self.layer = torch.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=batch_first)
        self.head = torch.nn.Linear(16, 3)

    def forward(self, codes):
        return self.head(self.layer(self.letters(codes)))


@pytest.mark.parametrize("along", ["rows", "time", "rows, which is right", "time, of one batch"])
def test_attention_over_rows_is_told_from_attention_over_time(along):
    torch.manual_seed(0)
    codes = torch.randint(20, (120, 9))
    kinds = (codes + codes.roll(1, 1)) % 3
    model = Tagger(batch_first=along == "rows, which is right")
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    with stepscope.watch(model, optimizer) as session:
        for _ in range(16):
            for rows in torch.randperm(120).split(20):
                if along == "time, of one batch":
                    rows = torch.arange(20)
                inputs, targets = codes[rows], kinds[rows]
                if along.startswith("time"):
                    inputs, targets = inputs.T.contiguous(), targets.T.contiguous()
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten()).backward()
                optimizer.step()
        causes = [cause.code for cause in session.report().causes]

    assert ("batch_mixing" in causes) == (along == "rows")
