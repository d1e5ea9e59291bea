"""Operators that go over the samples of a batch, and those that only look as if they did."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from debuggers.instrumentation.hooks import Hooks
from debuggers.observed_training.graphs.loss_view import output_nodes
from debuggers.observed_training.graphs.mixed_samples import MixedSamples

TIME, FEATURES = 5, 8


class Reader(nn.Module):
    """Embeds (N, time) codes, reads them by a function, and returns (N, 3)."""

    def __init__(self, read, **layers):
        super().__init__()
        self.embedding = nn.Embedding(7, FEATURES)
        self.head = nn.Linear(FEATURES, 3)
        self.layers = nn.ModuleDict(layers)
        self.read = read

    def forward(self, codes):
        return self.head(self.read(self.embedding(codes), **self.layers))


def found(model, rows=6, inputs=None):
    """What is said of a model after one pass."""
    mixed, hooks = MixedSamples(model), Hooks()
    hooks.add_forward(mixed.hooks())
    hooks.add_forward([(one, lambda module, args, _: mixed.reads(module, args[0])) for one in mixed.readers])
    codes = torch.arange(rows * TIME).view(rows, TIME) % 7 if inputs is None else inputs
    mixed.call_begins(codes)
    outputs = model(codes)
    mixed.call_ends(outputs)
    hooks.remove()
    return mixed.found((outputs * 2).square().mean().grad_fn, output_nodes([outputs]))


def gru(*, batch_first):
    return Reader(lambda x, cell: cell(x)[0].mean(1), cell=nn.GRU(FEATURES, FEATURES, batch_first=batch_first))


def encoder(*, batch_first):
    layer = nn.TransformerEncoderLayer(FEATURES, 2, 16, batch_first=batch_first, dropout=0.1)
    return Reader(lambda x, layer: layer(x).mean(1), layer=layer)


MIXING = {
    "recurrence": gru(batch_first=False),
    "attention": encoder(batch_first=False),
    "softmax": Reader(lambda x: functional.softmax(x.mean(1), 0)),
    "log-softmax": Reader(lambda x: functional.log_softmax(x, 0).mean(1)),
    "view": Reader(lambda x: x.transpose(0, 1).reshape(len(x), TIME, FEATURES).mean(1)),
    "flattened": Reader(lambda x: x.permute(1, 0, 2).reshape(len(x), -1)[:, :FEATURES]),
    "transposed recurrence": Reader(
        lambda x, cell: cell(x.transpose(0, 1))[0].amax(0), cell=nn.LSTM(FEATURES, FEATURES, batch_first=True)
    ),
    "running sum": Reader(lambda x: x.cumsum(0).mean(1)),
    "running sum of a flat sample": Reader(lambda x: x.flatten(1).cumsum(-2)[:, :FEATURES]),
    "lengths of columns": Reader(lambda x: functional.normalize(x.mean(1), dim=0)),
    "a letter too many": Reader(lambda x: torch.einsum("btd,ctd->btd", x, x).mean(1)),
    "attention of flat samples": Reader(
        lambda x: ((flat := x.flatten(1)) @ flat.T).softmax(-1).matmul(flat)[:, :FEATURES]
    ),
    "scores of samples by heads": Reader(
        lambda x: torch.einsum("hbc,chd->bhd", torch.einsum("bhd,chd->hbc", x, x).softmax(-1), x).mean(1)
    ),
    "a sum over samples": Reader(lambda x: (x + x.transpose(0, 1).unsqueeze(0).sum(-2)).mean(1)),
    "shifted elements": Reader(lambda x: x.roll(1).mean(1)),
    "differences of samples": Reader(lambda x: x.diff(dim=0, prepend=x[:1]).mean(1)),
    "layer norm of a whole batch": Reader(lambda x: functional.layer_norm(x.mean(1), x.mean(1).shape)),
}


@pytest.mark.parametrize("name", MIXING)
def test_an_operator_over_the_batch_is_found(name):
    assert "batch of 6" in found(MIXING[name]) or "samples of a batch" in found(MIXING[name])


APART = {
    "recurrence": gru(batch_first=True),
    "attention": encoder(batch_first=True),
    "time first": Reader(lambda x, cell: cell(x.transpose(0, 1))[0].mean(0), cell=nn.LSTM(FEATURES, FEATURES)),
    "softmax over positions": Reader(lambda x: (x * x.mean(2, keepdim=True).softmax(1)).sum(1)),
    "joined and cut": Reader(lambda x: x.reshape(-1, FEATURES).relu().view(-1, TIME, FEATURES).mean(1)),
    "running sum over positions": Reader(lambda x: x.cumsum(1).mean(1)),
    "lengths of rows": Reader(lambda x: functional.normalize(x.mean(1), dim=1)),
    "lengths of a weight's columns": Reader(
        lambda x, mix: x.mean(1) @ functional.normalize(mix.weight, dim=0).mean(0).diag(),
        mix=nn.Linear(FEATURES, 6),
    ),
    "layer norm": Reader(lambda x, norm: norm(x).mean(1), norm=nn.LayerNorm([TIME, FEATURES])),
    "scores of positions": Reader(
        lambda x: torch.einsum("bts,bsd->btd", torch.einsum("btd,bsd->bts", x, x).softmax(-1), x).mean(1)
    ),
    "products of a sample's positions": Reader(lambda x: torch.einsum("btd,bsd->bsd", x, x).mean(1)),
    "shifted positions": Reader(lambda x: x.roll((1, 2), (1, 2)).mean(1)),
    "mixed on purpose": Reader(lambda x: (0.7 * x + 0.3 * x.roll(1, 0)).mean(1)),
    "differences of positions": Reader(lambda x: x.diff(dim=1).mean(1)),
    "a sum over positions first": Reader(lambda x: x.transpose(0, 1).sum(0)),
    "logits of words that are looked up": Reader(
        lambda x, words: (x.mean(1) @ words(torch.arange(FEATURES)).T)[:, :FEATURES],
        words=nn.Embedding(FEATURES, FEATURES),
    ),
    "a mean of the batch": Reader(lambda x: (x - x.mean(0)).mean(1)),
    "batch norm": Reader(lambda x, norm: norm(x.flatten(0, 1)).view_as(x).mean(1), norm=nn.BatchNorm1d(FEATURES)),
}


@pytest.mark.parametrize("name", APART)
@pytest.mark.parametrize("rows", [4, 5, 6, 8, 16])
def test_samples_that_are_apart_are_so_whatever_their_number(name, rows):
    assert found(APART[name], rows) == ""


@pytest.mark.parametrize(
    ("read", "is_mixed"),
    [
        pytest.param(lambda x: x.transpose(0, 1).reshape(x.shape), True, id="turned and reshaped back"),
        pytest.param(lambda x: x.permute(1, 2, 0).reshape(x.shape), True, id="turned away and reshaped back"),
        pytest.param(lambda x: x.transpose(0, 1).contiguous().transpose(0, 1), False, id="turned back"),
        pytest.param(lambda x: x.transpose(1, 2).reshape(x.shape), False, id="turned in each sample"),
        pytest.param(lambda x: x[:, :1].transpose(0, 1).reshape(len(x), 1, -1), False, id="turned around one place"),
    ],
)
def test_a_reshape_to_the_shape_before_turning_mixes_where_sizes_are_multiples(read, is_mixed):
    codes = torch.arange(18).view(3, 6) % 7

    assert bool(found(Reader(lambda x: read(x * 2).mean(1)), inputs=codes)) is is_mixed


def test_scores_of_one_list_may_compete():
    scores = nn.Sequential(nn.Linear(3, 1), nn.Softmax(0))
    assert found(scores, inputs=torch.ones(6, 3)) == ""


def test_the_positions_of_one_sequence_may_look_at_each_other():
    class Alone(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.head = nn.Linear(3, FEATURES), nn.Linear(FEATURES, 2)

        def forward(self, positions):
            x = self.first(positions)
            return self.head((x @ x.T).softmax(-1) @ x + x.sum(0))

    assert found(Alone(), inputs=torch.ones(6, 3)) == ""


def test_a_loss_may_compare_samples():
    model, mixed = nn.Linear(3, 4), MixedSamples(None)
    inputs = torch.ones(6, 3)
    mixed.call_begins(inputs)
    outputs = model(inputs)
    mixed.call_ends(outputs)
    loss = functional.normalize(outputs, dim=0).cumsum(0).mean()
    assert mixed.found(loss.grad_fn, output_nodes([outputs])) == ""


def test_lines_of_texts_may_be_as_long_as_a_batch():
    lines = Reader(
        lambda x, cell: cell(x.repeat_interleave(2, 0))[0].mean(1)[::2],
        cell=nn.GRU(FEATURES, FEATURES, batch_first=True),
    )
    assert found(lines, rows=TIME) == ""


def test_attention_over_samples_is_found_where_positions_are_a_multiple_of_them():
    codes = torch.arange(6 * 12).view(6, 12) % 7
    cut = Reader(lambda x, layer: layer(x.reshape(-1, 6, FEATURES)).mean(1).view(len(x), -1, FEATURES).mean(1),
                 layer=encoder(batch_first=True).layers["layer"])  # fmt: skip
    texts = [found(model, inputs=codes) for model in (encoder(batch_first=False), encoder(batch_first=True), cut)]
    assert "for 12 positions apart" in texts[0]
    assert texts[1:] == ["", ""]


@pytest.mark.parametrize("first", [False, True])
def test_attention_over_samples_is_found_where_heads_times_positions_are_as_many(first):
    attention = nn.MultiheadAttention(FEATURES, 2, batch_first=first)
    text = found(Reader(lambda x, layer: layer(x, x, x)[0].mean(1), layer=attention), rows=2 * TIME)
    assert ("layers.layer has batch_first=False" in text) is not first


def test_of_outputs_of_other_rows_nothing_is_said():
    language = nn.Sequential(nn.Embedding(7, FEATURES), nn.Softmax(0))
    assert found(language) is None
    assert found(Reader(lambda x: x.mean((0, 1), keepdim=True)[0])) is None


class Frames(nn.Module):
    """Embeds all frames (N * time, features) of clips (N, time, features) and brings them to (time, N, width)."""

    def __init__(self, arrange, join):
        super().__init__()
        self.frames, self.head = nn.Linear(FEATURES, FEATURES), nn.Linear(FEATURES, 3)
        self.arrange, self.join = arrange, join

    def forward(self, clips):
        return self.head(self.arrange(self.frames(self.join(clips)), len(clips)).mean(0))


@pytest.mark.parametrize(
    ("arrange", "join", "is_mixed"),
    [
        (lambda x, rows: x.view(TIME, rows, -1), lambda x: x.flatten(0, 1), True),
        (lambda x, rows: x.view(TIME, rows, -1), lambda x: x.transpose(0, 1).flatten(0, 1), False),
        (lambda x, rows: x.view(rows, TIME, -1).transpose(0, 1), lambda x: x.flatten(0, 1), False),
    ],
    ids=["viewed", "turned before", "turned after"],
)
def test_frames_that_were_put_in_a_row_are_taken_apart_as_they_were(arrange, join, is_mixed):
    text = found(Frames(arrange, join), inputs=torch.randn(6, TIME, FEATURES))
    assert ("other samples" in text) is is_mixed


def test_a_number_of_the_model_that_is_viewed_is_no_frame():
    scale = nn.Parameter(torch.ones(()))
    model = Frames(
        lambda x, rows: x.view(rows, TIME, -1).transpose(0, 1) * scale.view(1, 1, 1), lambda x: x.flatten(0, 1)
    )
    assert found(model, inputs=torch.randn(6, TIME, FEATURES)) == ""


class Directions(nn.Module):
    """Reads in both directions, and brings the last states (2, N, features) to (N, 2 * features)."""

    def __init__(self, arrange):
        super().__init__()
        self.cell = nn.LSTM(FEATURES, FEATURES, batch_first=True, bidirectional=True)
        self.head, self.arrange = nn.Linear(2 * FEATURES, 3), arrange

    def forward(self, series):
        return self.head(self.arrange(self.cell(series)[1][0], len(series)))


@pytest.mark.parametrize("rows", [6, FEATURES, 2 * FEATURES])
@pytest.mark.parametrize(
    ("arrange", "is_mixed"),
    [(lambda x, rows: x.reshape(rows, -1), True), (lambda x, rows: x.transpose(0, 1).reshape(rows, -1), False),
     (lambda x, rows: torch.cat([x[0], x[1]], 1), False)],
    ids=["reshaped", "turned", "joined"],
)  # fmt: skip
def test_states_that_are_reshaped_mix_samples_where_the_batch_is_as_large_as_a_state_too(arrange, rows, is_mixed):
    text = found(Directions(arrange), inputs=torch.randn(rows, TIME, FEATURES))
    assert (f"batch of {rows}" in text) is is_mixed


@pytest.mark.parametrize(
    ("arrange", "is_mixed"),
    [(lambda x: x.reshape(x.shape[1], len(x), -1), True), (lambda x: x.transpose(0, 1), False)],
    ids=["reshaped", "turned"],
)
def test_what_stands_before_a_long_recurrence_is_looked_at(arrange, is_mixed):
    """Its steps have more operators than are looked at."""
    model = Reader(lambda x, cell: cell(arrange(x))[0].amax(0), cell=nn.GRU(FEATURES, FEATURES))
    text = found(model, inputs=torch.arange(6 * 80).view(6, 80) % 7)

    assert ("batch of 6" in text) is is_mixed


@pytest.mark.parametrize("rows", [6, FEATURES])
def test_a_weight_that_is_viewed_holds_no_samples(rows):
    """Four heads of a weight (4, features, 2) are put side by side, in which a dimension has the batch's size."""
    model = Reader(lambda x, heads: x.mean(1) @ heads.weight.view(4, FEATURES, 2).reshape(FEATURES, FEATURES),
                   heads=nn.Linear(FEATURES, FEATURES, bias=False))  # fmt: skip
    model.layers["heads"].weight = nn.Parameter(torch.randn(4, FEATURES, 2))
    assert found(model, rows) == ""


class Steps(nn.Module):
    """Brings (N, time * features) to (time, N, features) for a GRU, and returns (N, 3)."""

    def __init__(self, arrange):
        super().__init__()
        self.cell, self.head = nn.GRU(FEATURES, FEATURES), nn.Linear(FEATURES, 3)
        self.arrange = arrange

    def forward(self, rows):
        return self.head(self.cell(self.arrange(rows))[0][-1])


ARRANGED = {
    "viewed": lambda rows: rows.view(TIME, -1, FEATURES),
    "reshaped": lambda rows: rows.view(-1, TIME, FEATURES).reshape(TIME, -1, FEATURES),
    "transposed": lambda rows: rows.view(-1, TIME, FEATURES).transpose(0, 1),
    "copied": lambda rows: rows.view(-1, TIME, FEATURES).permute(1, 0, 2).contiguous(),
}


@pytest.mark.parametrize("name", ARRANGED)
@pytest.mark.parametrize("rows", [6, TIME * FEATURES])
def test_inputs_in_another_shape_are_a_view_or_transposed(name, rows):
    text = found(Steps(ARRANGED[name]), inputs=torch.randn(rows, TIME * FEATURES))
    assert ("by a view" in text) is (name in ("viewed", "reshaped"))


def test_pictures_in_another_shape_of_each_sample_are_apart():
    pictures = torch.randn(6, 8, 8)
    linear = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
    convolved = nn.Sequential(nn.Unflatten(1, (1, 8)), nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(72, 3))
    assert [found(model, inputs=pictures) for model in (linear, convolved)] == ["", ""]


class Shifted(nn.Module):
    """Adds what stands one place before."""

    def __init__(self, *dim):
        super().__init__()
        self.dim = dim

    def forward(self, read):
        return read + read.roll(1, *self.dim)


class Tagger(nn.Module):
    """Returns (N, time, 3) for (N, time) codes."""

    def __init__(self, layer):
        super().__init__()
        self.embedding, self.layer, self.head = nn.Embedding(7, FEATURES), layer, nn.Linear(FEATURES, 3)

    def forward(self, codes):
        read = self.layer(self.embedding(codes))
        return self.head(read[0] if isinstance(read, tuple) else read)


TAGGERS = {
    "attention": lambda is_first: nn.TransformerEncoderLayer(FEATURES, 2, 16, batch_first=is_first),
    "recurrence": lambda is_first: nn.GRU(FEATURES, FEATURES, batch_first=is_first),
    "shift": lambda is_first: Shifted(1 if is_first else 0),
    "shift of all": lambda is_first: Shifted(*([1] if is_first else [])),
}


@pytest.mark.parametrize("name", TAGGERS)
@pytest.mark.parametrize(("rows", "is_first", "expected"), [
    (6, False, "first dimension of (6, 5)"), (6, True, ""), (TIME, False, None),
])  # fmt: skip
def test_what_goes_along_the_first_of_two_dimensions_is_named(name, rows, is_first, expected):
    model = Tagger(TAGGERS[name](is_first))
    mixed, hooks = MixedSamples(model), Hooks()
    hooks.add_forward(mixed.hooks())
    codes = torch.arange(rows * TIME).view(rows, TIME) % 7
    mixed.call_begins(codes)
    outputs = model(codes)
    mixed.call_ends(outputs)
    hooks.remove()
    along = mixed.along_first(outputs.square().mean().grad_fn)
    assert along == expected if not expected else expected in along


@pytest.mark.parametrize(
    ("pool", "is_mixed"),
    [
        pytest.param(lambda h: h.reshape(TIME, len(h), FEATURES).amax(0), True, id="a reshape across the batch"),
        pytest.param(lambda h: h.transpose(0, 1).amax(0), False, id="turned"),
        pytest.param(lambda h: h.reshape(-1, FEATURES).relu().view(-1, TIME, FEATURES).amax(1), False, id="cut again"),
        pytest.param(lambda h: h.amax(1).view(-1, 2, FEATURES).view(-1, FEATURES), False, id="in pairs"),
        pytest.param(lambda h: (pooled := h.amax(1)).T.softmax(1).T * pooled, False, id="samples that a loop compares"),
    ],
)
@pytest.mark.parametrize("rows", [4, 6, FEATURES, 10])
def test_between_the_parts_that_a_loop_calls_a_reshape_mixes_samples(pool, is_mixed, rows):
    first, last, mixed = nn.Linear(3, FEATURES), nn.Linear(FEATURES, 2), MixedSamples(None)
    inputs = torch.randn(rows, TIME, 3)
    mixed.part_begins(inputs)
    features = first(inputs)
    mixed.part_ends(features)
    mixed.part_begins(pool(features))
    outputs = last(pool(features))
    mixed.part_ends(outputs)
    root, known = outputs.square().mean().grad_fn, output_nodes([features, outputs])

    assert bool(mixed.found(root, known)) is is_mixed
    assert mixed.rows == 0  # a loop may do with the rows what it likes
    mixed.step_ends()
    assert mixed.found(root, known) is None


@pytest.mark.parametrize(
    ("given", "alone", "returned", "rows"),
    [((6, 3), True, (6, 2), 6), ((6, 3), False, (6, 2), 0), ((6, 3), True, (5, 2), 0), ((6, 3), True, (6, 2, 2), 0)],
)
def test_rows_are_samples_where_each_has_its_own(given, alone, returned, rows):
    mixed = MixedSamples(None)
    mixed.call_begins(torch.ones(given), alone=alone)
    mixed.call_ends(torch.ones(returned))
    assert mixed.rows == rows
