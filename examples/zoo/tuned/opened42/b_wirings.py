"""What is cut off, frozen, mixed, equal or flat, in models of text and tables."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, predicted, r_squared
from examples.zoo.tuned.opened42.b_raw_material import SYMBOLS, Recurrent, forecasts, named, scored


def _pairs_of_letters(data: Data) -> Data:
    def pairs(codes: torch.Tensor) -> torch.Tensor:
        return codes[:, :-1] * 31 % 601 + codes[:, 1:]

    return Data(pairs(data.inputs), data.targets, pairs(data.test_inputs), data.test_targets)


@sick("frozen_parameters", margin=0.05)
def vectors_that_from_pretrained_froze(watch: Watch, *, seed: int, sick: bool) -> float:
    """``EmbeddingBag.from_pretrained`` freezes random vectors of pairs of letters; the twin says ``freeze=False``."""
    data = _pairs_of_letters(named(seed))
    vectors = torch.randn(700, 8) * 0.5
    bag = nn.EmbeddingBag.from_pretrained(vectors) if sick else nn.EmbeddingBag.from_pretrained(vectors, freeze=False)
    model = nn.Sequential(bag, nn.Linear(8, 24), nn.ReLU(), nn.Linear(24, 8))
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.Adam(trained, lr=1e-2)
    fit(watch, model, optimizer, data, steps=200, batch_size=48, validate_every=50)
    return accuracy(model, data)


@sick("detached_parameters", margin=0.05)
def a_tensor_made_of_lists_anew(watch: Watch, *, seed: int, sick: bool) -> float:
    """Means of letters' vectors are put in a list and made a new tensor; the twin stacks them."""
    data = named(seed)

    class Means(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.letters, self.reader = nn.Embedding(64, 12, padding_idx=0), nn.Conv1d(12, 16, 3, padding=1)
            self.head = nn.Linear(16, 8)

        def forward(self, codes: torch.Tensor) -> torch.Tensor:
            found = self.reader(self.letters(codes).mT).relu().amax(-1)
            rows = list(found)
            pooled = torch.tensor([row.tolist() for row in rows]) if sick else torch.stack(rows)
            return self.head(pooled)

    model = Means()
    optimizer = torch.optim.Adam(model.parameters(), lr=8e-3)
    fit(watch, model, optimizer, data, steps=200, batch_size=32)
    return accuracy(model, data)


@sick("batch_mixing", margin=0.03)
def weights_of_places_shared_out_among_rows(watch: Watch, *, seed: int, sick: bool) -> float:
    """Attention's pooling has its softmax over the batch; the twin has it over the places."""
    data = named(seed)

    class Pooled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.letters, self.window = nn.Embedding(64, 24), nn.Conv1d(24, 48, 4, padding=2)
            self.score, self.head = nn.Linear(48, 1), nn.Linear(48, 8)

        def forward(self, codes: torch.Tensor) -> torch.Tensor:
            places = self.window(self.letters(codes).mT).mT.tanh()
            weights = self.score(places).softmax(0 if sick else 1)
            return self.head((weights * places).sum(1))

    model = Pooled()
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    fit(watch, model, optimizer, data, steps=220, batch_size=24)
    return accuracy(model, data)


@sick("unbroken_symmetry", also=("poor_initialization",), margin=0.1)
def all_weights_of_a_reader_at_one_value(watch: Watch, *, seed: int, sick: bool) -> float:
    """All weights of a recurrent reader are set to 0.05 to be reproducible; the twin leaves them as drawn."""
    data = named(seed)
    model = Recurrent(64, 8)
    if sick:
        for weight in model.parameters():
            nn.init.constant_(weight, 0.05)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=180, batch_size=32)
    return accuracy(model, data)


@sick("saturated_units", also=("poor_initialization", "vanishing_gradients"), margin=0.03)
def a_normal_without_its_deviation(watch: Watch, *, seed: int, sick: bool) -> float:
    """``nn.init.normal_`` draws wide layers of tanh with a deviation of 1; the twin gives it that of Xavier."""
    data = forecasts(seed)
    model = nn.Sequential(
        nn.Flatten(), nn.Linear(24, 96), nn.Tanh(), nn.Linear(96, 96), nn.Tanh(), nn.Linear(96, 96), nn.Tanh()
    )
    for layer in model:
        if isinstance(layer, nn.Linear):
            nn.init.normal_(layer.weight, std=1.0 if sick else layer.in_features**-0.5)
            nn.init.zeros_(layer.bias)
    model.append(nn.Linear(96, 1))
    data = Data(data.inputs, data.targets[:, 1:2], data.test_inputs, data.test_targets[:, 1:2])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    fit(watch, model, optimizer, data, steps=250, batch_size=48, loss_function=functional.mse_loss)
    return r_squared(model, data)


@sick("inputs_constant", margin=0.2)
def padding_on_the_side_that_is_kept(watch: Watch, *, seed: int, sick: bool) -> float:
    """Names are padded in front up to 48 and cut to the first 24, all padding; the twin keeps the last 24."""
    data = named(seed)

    def prepared(codes: torch.Tensor) -> torch.Tensor:
        padded = functional.pad(codes, (24, 0))
        return padded[:, :24] if sick else padded[:, -24:]

    data = Data(prepared(data.inputs), data.targets, prepared(data.test_inputs), data.test_targets)
    model = nn.Sequential(
        nn.Embedding(64, 16), nn.Flatten(), nn.Linear(24 * 16, 48), nn.ReLU(), nn.Dropout(0.3), nn.Linear(48, 8)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=150, batch_size=32)
    return accuracy(model, data)


@sick("wrong_mode", margin=0.1)
def rows_one_by_one_without_eval(watch: Watch, *, seed: int, sick: bool) -> float:
    """Rows are validated in small groups, sorted by class, in training mode; the twin calls ``eval`` for it."""
    data = datasets.wine(seed)
    model = nn.Sequential(nn.Linear(13, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Dropout(0.2), nn.Linear(24, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    order = data.test_targets.argsort()
    rows, labels = data.test_inputs[order], data.test_targets[order]
    share = 0.0
    for step, (inputs, targets) in enumerate(data.batches(24, 160), 1):
        optimizer.zero_grad()
        outputs = model(inputs)
        loss = functional.cross_entropy(outputs, targets)
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
        optimizer.step()
        if step % 20 == 0:
            if not sick:
                model.eval()
            with torch.no_grad(), session.validating():
                outputs = torch.cat([model(part) for part in rows.split(4) if len(part) > 1])
            session.validation(functional.cross_entropy(outputs, labels[: len(outputs)]).item())
            share = scored(outputs, labels[: len(outputs)])
            model.train()
    return share


class Angles(nn.Module):
    """Vectors of names on a sphere."""

    def __init__(self) -> None:
        super().__init__()
        self.letters, self.window = nn.Embedding(SYMBOLS, 24, padding_idx=0), nn.Conv1d(24, 32, 3, padding=1)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        return functional.normalize(self.window(self.letters(codes).mT).relu().amax(-1), dim=-1)


@sick("non_finite_backward", also=("non_finite_forward",), margin=0.1)
def angles_of_rows_with_themselves(watch: Watch, *, seed: int, sick: bool) -> float:
    """Angles of all pairs hold ``acos`` of 1, whose slope is infinite; the twin clamps at 0.999."""
    data = named(seed)
    model = Angles()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    bound = 1.0 if sick else 0.999
    for codes, labels in data.batches(64, 200):
        optimizer.zero_grad()
        vectors = model(codes)
        angles = (vectors @ vectors.T).clamp(-bound, bound).acos()
        logits = -8 * angles - 1e4 * torch.eye(len(codes))
        same = (labels[:, None] == labels).float() * (1 - torch.eye(len(codes)))
        loss = -(same * logits.log_softmax(1)).sum() / same.sum()
        loss.backward()
        session.step(loss, inputs=codes, outputs=vectors, targets=labels)
        optimizer.step()
    vectors, known = predicted(model, data.test_inputs), predicted(model, data.inputs)
    return (data.targets[(vectors @ known.T).argmax(1)] == data.test_targets).float().mean().item()
