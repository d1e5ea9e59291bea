"""Sound trainings in which part of a model is frozen, sparse, quantised, averaged, or trained before."""

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils import parametrize, prune
from torch.nn.utils.parametrizations import weight_norm
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.loops import accuracy, fit, held_out_loss, predicted, r_squared


def _pretrained(data: datasets.Data, classes: int, steps: int = 120) -> nn.Sequential:
    """Returns a net that was trained on the digits below a number."""
    rows = data.targets < classes
    few = datasets.Data(data.inputs[rows], data.targets[rows], data.test_inputs, data.test_targets)
    net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, classes))
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    for pixels, labels in few.batches(64, steps):
        optimizer.zero_grad()
        functional.cross_entropy(net(pixels), labels).backward()
        optimizer.step()
    return net


class Adapted(nn.Module):
    """A frozen layer plus a product of two narrow ones, the second of which begins at zero."""

    def __init__(self, layer: nn.Linear, rank: int) -> None:
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down = nn.Linear(layer.in_features, rank, bias=False)
        self.up = nn.Linear(rank, layer.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return self.layer(values) + 2 * self.up(self.down(values))


@healthy(at_least=0.85)
def adapters_in_a_frozen_body(watch: Watch, *, seed: int) -> float:
    """A net that knows six digits learns all ten by adapters of rank four and a new head; all else is frozen."""
    data = datasets.digits(seed)
    net = _pretrained(data, 6)
    model = nn.Sequential(Adapted(net[0], 4), nn.ReLU(), Adapted(net[2], 4), nn.ReLU(), nn.Linear(32, 10))
    optimizer = torch.optim.AdamW((one for one in model.parameters() if one.requires_grad), lr=5e-3)
    fit(watch, model, optimizer, data, steps=250, batch_size=48, validate_every=50)
    return accuracy(model, data)


@healthy(at_least=0.65)
def a_linear_probe(watch: Watch, *, seed: int) -> float:
    """Only a linear layer on features of a trained net learns; the features are taken in eval mode, without graph."""
    data = datasets.digits(seed)
    body = _pretrained(data, 8)[:-1].eval()
    probe = nn.Linear(32, 10)
    optimizer = torch.optim.SGD(probe.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    session = watch(nn.ModuleDict({"body": body.requires_grad_(False), "probe": probe}), optimizer)
    for pixels, labels in data.batches(64, 200):
        with torch.no_grad():
            features = body(pixels)
        scores = probe(features)
        loss = functional.cross_entropy(scores, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=features, outputs=scores, targets=labels)
        optimizer.step()
    return accuracy(nn.Sequential(body, probe), data)


@healthy(at_least=0.35)
def weights_shrunk_to_zero(watch: Watch, *, seed: int) -> float:
    """A linear model of patients under an L1 norm: after each step, weights shrink by a threshold, some to zero."""
    data = datasets.diabetes(seed)
    model = nn.Linear(10, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    session = watch(model, optimizer)
    for rows, targets in data.batches(64, 150):
        guessed = model(rows)
        loss = functional.mse_loss(guessed, targets)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=guessed, targets=targets)
        optimizer.step()
        with torch.no_grad():
            model.weight.copy_(functional.softshrink(model.weight, 0.05 * 0.05))
    return r_squared(model, data)


class Rounded(nn.Module):
    """Weights rounded to 15 steps in the forward pass; gradients pass as if they were not."""

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        step = weight.detach().abs().amax() / 7
        return weight + ((weight / step).round() * step - weight).detach()


@healthy(at_least=0.8)
def weights_of_four_bits(watch: Watch, *, seed: int) -> float:
    """Quantisation-aware: a net is trained in full, then on with rounded weights, at a smaller rate."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
    warm = torch.optim.Adam(model.parameters(), lr=3e-3)
    for pixels, labels in data.batches(64, 60):
        warm.zero_grad()
        functional.cross_entropy(model(pixels), labels).backward()
        warm.step()
    for layer in (model[0], model[2]):
        parametrize.register_parametrization(layer, "weight", Rounded())
    fit(watch, model, torch.optim.Adam(model.parameters(), lr=1e-3), data, steps=150, validate_every=50)
    return accuracy(model, data)


@healthy(at_least=0.85)
def pruned_on_the_way(watch: Watch, *, seed: int) -> float:
    """Every thirty steps the smallest fifth of the weights left is set to zero for good."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 10))
    for layer in (model[0], model[2]):
        prune.identity(layer, "weight")
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for step, (pixels, labels) in enumerate(data.batches(64, 240), 1):
        scores = model(pixels)
        loss = functional.cross_entropy(scores, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=scores, targets=labels)
        optimizer.step()
        if step % 30 == 0 and step < 200:
            for layer in (model[0], model[2]):
                prune.l1_unstructured(layer, "weight", amount=0.2)
    return accuracy(model, data)


class Bag(nn.Module):
    """A bag of pairs of letters, with gradients for the rows that a batch uses."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.EmbeddingBag(samples.LETTERS**2, 16, sparse=True, mode="mean")
        self.out = weight_norm(nn.Linear(16, len(samples.SCRIPTS)))

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        return self.out(self.rows(codes[:, :-1] * samples.LETTERS + codes[:, 1:]))


@healthy(at_least=0.5)
def rows_with_sparse_gradients(watch: Watch, *, seed: int) -> float:
    """Names as bags of pairs: SparseAdam for the table of rows, Adam for a head with weight norm."""
    train, test = samples.names(seed)
    model = Bag()
    rows = torch.optim.SparseAdam(model.rows.parameters(), lr=2e-2)
    head = torch.optim.Adam(model.out.parameters(), lr=1e-2)
    session = watch(model, [rows, head])
    for _ in range(9):
        for codes, labels in DataLoader(train, batch_size=32, shuffle=True):
            scores = model(codes)
            loss = functional.cross_entropy(scores, labels)
            rows.zero_grad()
            head.zero_grad()
            loss.backward()
            session.step(loss, inputs=codes, outputs=scores, targets=labels)
            rows.step()
            head.step()
    return samples.accuracy(predicted(model, test.tensors[0]), test.tensors[1])


@healthy(at_least=0.85)
def an_average_is_what_is_judged(watch: Watch, *, seed: int) -> float:
    """Noisy steps at a constant high rate in bfloat16 autocast; a moving average of the weights is validated."""
    data = datasets.digits(seed, images=True)
    model = nn.Sequential(nn.Conv2d(1, 12, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(108, 10))
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.95))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    session = watch(model, optimizer)
    for step, (images, labels) in enumerate(data.batches(32, 220), 1):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            scores = model(images)
            loss = functional.cross_entropy(scores, labels)
        loss.backward()
        session.step(loss, inputs=images, outputs=scores, targets=labels)
        optimizer.step()
        average.update_parameters(model)
        if step % 44 == 0:
            with session.validating():
                held_out = held_out_loss(average, data)
            session.validation(held_out)
    return accuracy(average, data)
