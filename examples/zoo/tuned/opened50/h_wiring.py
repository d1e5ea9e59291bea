"""Parameters that are not reached, not taken, or not in the right state."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, binary_accuracy, fit, predicted
from examples.zoo.samples import explained
from examples.zoo.tuned.opened50.h_kit import (
    NameReader,
    centred_digits,
    dense,
    learn,
    paired,
    reconstruction,
    striped_digits,
)


@sick("gradients_not_zeroed", also=("learning_rate_too_high",), margin=0.03)
def reset_named_but_never_called(watch: Watch, *, seed: int, sick: bool) -> float:
    """``optimizer.zero_grad`` is named and not called; the twin calls it."""
    data = centred_digits(seed)
    model = dense(64, 48, 32, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    for inputs, targets in data.batches(64, 200):
        outputs = model(inputs)
        loss = functional.cross_entropy(outputs, targets)
        if sick:
            optimizer.zero_grad  # noqa: B018
        else:
            optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
        optimizer.step()
    return accuracy(model, data)


@sick("frozen_parameters", margin=0.05)
def reader_frozen_for_a_checkpoint_it_lacks(watch: Watch, *, seed: int, sick: bool) -> float:
    """All but the head is frozen as for fine-tuning, although nothing was loaded; the twin trains all of it."""
    data = paired(samples.names(seed))
    model = NameReader(24)
    if sick:
        for name, parameter in model.named_parameters():
            parameter.requires_grad = name.startswith("head")
    optimizer = torch.optim.Adam((one for one in model.parameters() if one.requires_grad), lr=1e-2)
    fit(watch, model, optimizer, data, steps=250, batch_size=48)
    return accuracy(model, data)


class Squeeze(nn.Module):
    """An autoencoder with a code of six numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = dense(64, 32, 6), dense(6, 48, 64)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """Returns pixels."""
        return self.decoder(self.encoder(pixels))


@sick("parameters_not_in_optimizer", margin=0.05)
def only_the_decoder_is_handed_over(watch: Watch, *, seed: int, sick: bool) -> float:
    """The optimizer gets the decoder's parameters only; the twin's gets those of the encoder as well."""
    data = reconstruction(seed)
    model = Squeeze()
    taken = model.decoder if sick else model
    optimizer = torch.optim.Adam(taken.parameters(), lr=4e-3)
    fit(watch, model, optimizer, data, steps=300, loss_function=functional.mse_loss)
    return explained(predicted(model, data.test_inputs), data.test_targets)


class Neighbourhood(nn.Module):
    """Two graph convolutions; the first one's result may be cached without its graph."""

    def __init__(self, adjacency: torch.Tensor, cached: bool) -> None:
        super().__init__()
        self.adjacency, self.cached = adjacency, cached
        self.first, self.second = nn.Linear(64, 6), nn.Linear(6, 10)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Returns logits of all nodes."""
        states = (self.adjacency @ self.first(features)).relu()
        if self.cached:
            states = states.detach()
        return self.second(self.adjacency @ states)


def _graph(seed: int, neighbours: int = 6) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Returns digits' features, labels, which are known, and the sum over the nearest neighbours as a matrix."""
    data = centred_digits(seed)
    features, labels = torch.cat([data.inputs[:500], data.test_inputs[:300]]), None
    labels = torch.cat([data.targets[:500], data.test_targets[:300]])
    nearest = torch.cdist(features, features).topk(neighbours, largest=False).indices
    adjacency = torch.zeros(800, 800).scatter_(1, nearest, 1.0)
    return features, labels, torch.arange(800) < 500, adjacency


def _nodes(watch: Watch, model: nn.Module, optimizer: torch.optim.Optimizer, graph: tuple, steps: int) -> float:
    features, labels, known, _ = graph
    session = watch(model, optimizer)
    for _ in range(steps):
        optimizer.zero_grad()
        outputs = model(features)
        loss = functional.cross_entropy(outputs[known], labels[known])
        loss.backward()
        session.step(loss, inputs=features, outputs=outputs[known], targets=labels[known])
        optimizer.step()
    return samples.accuracy(predicted(model, features)[~known], labels[~known])


@sick("detached_parameters", margin=0.05)
def graph_layer_cached_without_its_gradient(watch: Watch, *, seed: int, sick: bool) -> float:
    """A graph network detaches its first layer's states "for a cache"; the twin keeps their graph."""
    graph = _graph(seed)
    model = Neighbourhood(graph[3] / 6, sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    return _nodes(watch, model, optimizer, graph, 120)


class Hops(nn.Module):
    """Five graph convolutions, without skips."""

    def __init__(self, adjacency: torch.Tensor) -> None:
        super().__init__()
        self.adjacency = adjacency
        self.layers = nn.ModuleList([nn.Linear(64, 32), *(nn.Linear(32, 32) for _ in range(3)), nn.Linear(32, 10)])

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Returns logits of all nodes."""
        states = features
        for layer in self.layers[:-1]:
            states = layer(self.adjacency @ states).relu()
        return self.layers[-1](self.adjacency @ states)


@sick("exploding_gradients", also=("learning_rate_too_high",), margin=0.1)
def neighbours_summed_over_five_hops(watch: Watch, *, seed: int, sick: bool) -> float:
    """The adjacency is not divided by the degree of 20, so that five hops multiply by millions; the twin divides."""
    graph = _graph(seed, 20)
    model = Hops(graph[3] if sick else graph[3] / 20)
    for layer in model.layers:
        nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
        nn.init.zeros_(layer.bias)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    return _nodes(watch, model, optimizer, graph, 120)


@sick("wrong_mode", also=("inputs_not_normalized",), margin=0.04)
def evaluated_before_the_first_step(watch: Watch, *, seed: int, sick: bool) -> float:
    """A check before the training calls ``eval()``, and BatchNorm learns no moments; the twin calls ``train()``."""
    data = datasets.breast_cancer(seed, raw=True)
    model = nn.Sequential(nn.BatchNorm1d(30), nn.Linear(30, 24), nn.Tanh(), nn.BatchNorm1d(24), nn.Linear(24, 1))
    predicted(model, data.test_inputs)
    model.eval()
    assert model(data.test_inputs[:2]).shape == (2, 1)
    if not sick:
        model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)

    def objective(inputs: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        outputs = model(inputs).squeeze(1)
        return functional.binary_cross_entropy_with_logits(outputs, targets.float()), outputs

    data = Data(data.inputs[:416], data.targets[:416], data.test_inputs, data.test_targets)
    learn(watch, model, optimizer, data, objective, steps=130, size=32)
    return binary_accuracy(model, data)


class Striped(nn.Module):
    """A GRU over rows, for which batch and time change places."""

    def __init__(self, reshaped: bool) -> None:
        super().__init__()
        self.reshaped = reshaped
        self.gru, self.head = nn.GRU(8, 40), nn.Linear(40, 10)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Returns logits."""
        count, length, width = rows.shape
        ordered = rows.reshape(length, count, width) if self.reshaped else rows.transpose(0, 1)
        return self.head(self.gru(ordered)[0][-1])


@sick("batch_mixing", also=("labels_unrelated",), margin=0.2)
def reshape_in_place_of_transpose(watch: Watch, *, seed: int, sick: bool) -> float:
    """Time is brought to the front by ``reshape``, which mixes the rows of samples; the twin transposes."""
    data = striped_digits(seed)
    model = Striped(sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    fit(watch, model, optimizer, data, steps=200)
    return accuracy(model, data)


@sick("accumulation_not_averaged", also=("learning_rate_too_high",), margin=0.05)
def sixteen_micro_batches_at_full_weight(watch: Watch, *, seed: int, sick: bool) -> float:
    """The losses of sixteen micro-batches are added up at a rate for their mean; the twin divides each by sixteen."""
    data = centred_digits(seed)
    model = dense(64, 64, 32, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    session = watch(model, optimizer)
    waiting = 0
    for inputs, targets in data.batches(8, 16 * 80):
        outputs = model(inputs)
        loss = functional.cross_entropy(outputs, targets)
        (loss if sick else loss / 16).backward()
        waiting += 1
        if waiting == 16:
            session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
            optimizer.step()
            optimizer.zero_grad()
            waiting = 0
    return accuracy(model, data)
