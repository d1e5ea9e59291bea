"""Samples that influence each other: what goes along the first dimension goes over the batch if its rows come again."""

import numpy as np
import pytest
import torch
from made_evidence import STEPS, evidence

import stepscope
from debuggers.diagnosis.facts import BatchFacts, Facts, InvariantFacts
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


SIGNALS = {"repeated_rows": 0.5, "duplicates": 0.0, "repeated": 0.0, "batch_size": 32.0}


def of_statistics(broken, inputs, **changed):
    kept = InvariantFacts(
        name="batch_statistics_are_kept", checked=9, broken=broken, first_step=0, where="over the batch"
    )
    signals = {f"inputs/{name}": np.broadcast_to(values, STEPS) for name, values in (SIGNALS | changed).items()}
    found = evidence(facts=Facts(steps=STEPS, invariants=(kept,), inputs=inputs), **signals)
    return "batch_mixing" in [cause.code for cause in diagnose(found)]


ROWS, IMAGES, CODES = BatchFacts(shape=(32, 9)), BatchFacts(shape=(32, 1, 9)), BatchFacts(shape=(32, 9), integer=True)


@pytest.mark.parametrize(("broken", "inputs", "changed", "is_one"), [
    (9, ROWS, {}, True),
    (2, ROWS, {}, False),
    (9, ROWS, {"repeated_rows": 0.1}, False),  # they may be the nodes of a graph
    (9, ROWS, {"repeated": 1.0}, False),
    (9, IMAGES, {"repeated_rows": 0.0}, True),
    (9, CODES, {"repeated_rows": 0.0}, True),
])  # fmt: skip
def test_features_standardised_over_the_batch_are_named_where_rows_are_samples(broken, inputs, changed, is_one):
    assert of_statistics(broken, inputs, **changed) == is_one


@pytest.mark.parametrize(("changed", "is_one"), [
    ({}, True),
    ({"unit_columns": 0.85}, False),
    ({"unit_columns": np.where(np.arange(STEPS) == 7, 0.0, 1.0)}, False),  # one batch that is not so
    ({"repeated_rows": 1.0}, False),  # the data are so as a whole
    ({"batch_size": 32.0 + np.arange(STEPS) % 3}, False),  # graphs of any size
])  # fmt: skip
def test_columns_of_length_1_in_each_batch_are_named(changed, is_one):
    assert of_statistics(0, ROWS, **{"unit_columns": 1.0, "repeated_rows": 0.0} | changed) == is_one


def test_columns_of_length_1_are_none_where_rows_may_be_nodes():
    signals = {f"inputs/{name}": np.ones(STEPS) for name in ("unit_columns", "batch_size")}
    signals["inputs/repeated_rows"] = np.zeros(STEPS)
    assert "batch_mixing" not in [cause.code for cause in diagnose(evidence(facts=Facts(steps=STEPS), **signals))]


@pytest.mark.parametrize("pool", ["across the batch", "of each set"])
def test_a_reshape_between_the_parts_that_a_loop_calls_is_named(pool):
    torch.manual_seed(0)
    sets = torch.randn(200, 7, 3)
    targets = (sets.amax(1).sum(1) > 4).long()
    parts = torch.nn.ModuleList([torch.nn.Linear(3, 16), torch.nn.Linear(16, 2)])
    optimizer = torch.optim.Adam(parts.parameters(), lr=3e-3)
    with stepscope.watch(parts, optimizer) as session:
        for rows in (one for _ in range(8) for one in torch.randperm(200).split(20)):
            features = parts[0](sets[rows])
            whole = features.amax(1) if pool == "of each set" else features.reshape(7, len(rows), 16).amax(0)
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(parts[1](whole), targets[rows]).backward()
            optimizer.step()
        causes = [cause.code for cause in session.report().causes]

    assert ("batch_mixing" in causes) == (pool == "across the batch")


@pytest.mark.parametrize("over", [0, 1])
def test_inputs_of_unit_columns_are_told_from_those_of_unit_rows(over):
    torch.manual_seed(0)
    inputs = torch.rand(300, 12)
    targets = (inputs[:, 0] > inputs[:, 1]).long()
    model = torch.nn.Sequential(torch.nn.Linear(12, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    with stepscope.watch(model, optimizer) as session:
        for rows in (one for _ in range(8) for one in torch.randperm(300).split(30)):
            outputs = model(torch.nn.functional.normalize(inputs[rows], dim=over))
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(outputs, targets[rows]).backward()
            optimizer.step()
        causes = [cause.code for cause in session.report().causes]

    assert ("batch_mixing" in causes) == (over == 0)


class Pooled(torch.nn.Module):
    """Makes rows of a batch alike, or features of a row."""

    def __init__(self, way):
        super().__init__()
        self.enter, self.leave, self.way = torch.nn.Linear(8, 16), torch.nn.Linear(16, 3), way

    def forward(self, inputs):
        values = self.enter(inputs).relu()
        if self.way in {"batch", "sum"}:
            pooled = values.mean(0, keepdim=True) if self.way == "batch" else values.sum(0, keepdim=True)
            return self.leave(pooled.expand_as(values))
        if self.way == "features":
            return self.leave(values.mean(1, keepdim=True).expand_as(values))
        return self.leave(torch.ones_like(values) if self.way == "constant" else values)


@pytest.mark.parametrize(
    ("way", "is_one"),
    [("batch", True), ("sum", True), ("features", False), ("none", False), ("constant", False)],
)
def test_a_model_that_gives_each_row_of_a_batch_the_same_pools_over_it(way, is_one):
    torch.manual_seed(0)
    model = Pooled(way)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    with stepscope.watch(model, optimizer) as session:
        for _ in range(120):
            rows = torch.randn(32, 8)
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(rows), rows[:, :3].argmax(1)).backward()
            optimizer.step()
    codes = [cause.code for cause in session.report().causes]
    assert (codes[:1] == ["batch_mixing"]) == ("batch_mixing" in codes) == is_one
