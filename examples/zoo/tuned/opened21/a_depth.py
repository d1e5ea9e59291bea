"""How nets are built and drawn: depth, first weights, regularisation, modes, and parts that stay frozen."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, fit
from examples.zoo.tuned.opened21.a_stock import series


class _Residual(nn.Module):
    def __init__(self, width: int, skips: bool) -> None:
        super().__init__()
        self.layer, self.skips = nn.Linear(width, width), skips

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        changed = torch.relu(self.layer(values))
        return values + changed if self.skips else changed


@sick("vanishing_gradients", also=("poor_initialization",), margin=0.3)
def eighteen_layers_as_they_are_made(watch: Watch, *, seed: int, sick: bool) -> float:
    """Linear layers start with a third of what ReLUs need, and 18 of them let little through; the twin has skips."""
    data = datasets.digits(seed)
    model = nn.Sequential(
        nn.Linear(64, 32), *(_Residual(32, skips=not sick) for _ in range(18)), nn.LayerNorm(32), nn.Linear(32, 10)
    )
    if sick:
        model[-2] = nn.Identity()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    fit(watch, model, optimizer, data, steps=200, batch_size=64)
    return accuracy(model, data)


class _Layer(nn.Module):
    """A linear layer as people write their own."""

    def __init__(self, inputs: int, outputs: int, scale: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(scale * torch.randn(inputs, outputs))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return values @ self.weight + self.bias


@sick("poor_initialization", margin=0.2)
def parameters_from_plain_randn(watch: Watch, *, seed: int, sick: bool) -> float:
    """A layer's own weights are ``torch.randn``, ten times too large; the twin divides by the root of the inputs."""
    train, test = samples.standardised(samples.halves(seed), 0)
    layers = [_Layer(rows, columns, 1.0 if sick else rows**-0.5) for rows, columns in ((32, 96), (96, 96), (96, 32))]
    model = nn.Sequential(layers[0], nn.GELU(), layers[1], nn.GELU(), layers[2])
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
    session = watch(model, optimizer)
    for _ in range(7):
        for upper, lower in DataLoader(train, 50, shuffle=True):
            inputs = upper.clamp(-3, 3)
            outputs = model(inputs)
            loss = functional.mse_loss(outputs, lower)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=inputs, outputs=outputs, targets=lower)
            optimizer.step()
    with torch.no_grad():
        return samples.explained(model(test.tensors[0].clamp(-3, 3)), test.tensors[1])


@sick("unbroken_symmetry", also=("poor_initialization", "vanishing_gradients"), margin=0.2)
def a_layer_of_zeros(watch: Watch, *, seed: int, sick: bool) -> float:
    """A layer of one's own starts as ``torch.zeros``, and hidden units never differ; the twin draws the weights."""
    data = datasets.wine(seed)
    scale = 0.0 if sick else 0.3
    model = nn.Sequential(_Layer(13, 24, scale), nn.Tanh(), _Layer(24, 3, scale))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    fit(watch, model, optimizer, data, steps=120, batch_size=32)
    return accuracy(model, data)


@sick("saturated_units", also=("poor_initialization",), margin=0.05)
def the_bias_of_the_forget_gate_in_all_gates(watch: Watch, *, seed: int, sick: bool) -> float:
    """A bias that keeps an LSTM from forgetting fills all four gates; the twin sets it in the second quarter alone."""
    train, test = series(seed)
    model = nn.ModuleDict({"lstm": nn.LSTM(1, 32, batch_first=True), "head": nn.Linear(32, 6)})
    with torch.no_grad():
        for name, bias in model["lstm"].named_parameters():
            if name.startswith("bias"):
                (bias if sick else bias[32:64]).fill_(3.0 if sick else 0.5)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for _ in range(8):
        for inputs, targets in DataLoader(train, 40, shuffle=True):
            outputs = model["head"](model["lstm"](inputs)[0][:, -1])
            loss = functional.mse_loss(outputs, targets)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
            optimizer.step()
    with torch.no_grad():
        return samples.explained(model["head"](model["lstm"](test.tensors[0])[0][:, -1]), test.tensors[1])


@sick("over_regularized", also=("dead_units",), margin=0.2)
def features_too_sparse_to_be_any(watch: Watch, *, seed: int, sick: bool) -> float:
    """A sparse autoencoder's penalty is a sum over its features, its error a mean; the twin has means of both."""
    data = datasets.digits(seed)
    mean = data.inputs.mean(0)
    encoder, decoder = nn.Linear(64, 128), nn.Linear(128, 64)
    model = nn.Sequential(encoder, nn.ReLU(), decoder)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for images, _ in data.batches(64, 250):
        inputs = images - mean
        features = torch.relu(encoder(inputs))
        outputs = decoder(features)
        sparsity = features.sum(1).mean() if sick else features.mean()
        loss = functional.mse_loss(outputs, inputs) + 0.02 * sparsity
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=inputs)
        optimizer.step()
    with torch.no_grad():
        return samples.explained(model(data.test_inputs - mean), data.test_inputs - mean)


@sick("wrong_mode", margin=0.1)
def a_sample_drawn_before_the_first_step(watch: Watch, *, seed: int, sick: bool) -> float:
    """A picture for the log is drawn in eval mode, and so stays the net, whose norms scale nothing; not the twin's."""
    train, test = samples.numerals(seed)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 48, bias=False), nn.BatchNorm1d(48), nn.Sigmoid())
    for _ in range(5):
        model.extend([nn.Linear(48, 48, bias=False), nn.BatchNorm1d(48), nn.Sigmoid()])
    model.append(nn.Linear(48, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model.eval()
    with torch.no_grad():
        model(test.tensors[0][:16])
    if not sick:
        model.train()
    session = watch(model, optimizer)
    for _ in range(6):
        for images, labels in DataLoader(train, 50, shuffle=True):
            outputs = model(images)
            loss = functional.cross_entropy(outputs, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=outputs, targets=labels)
            optimizer.step()
    model.eval()
    with torch.no_grad():
        return samples.accuracy(model(test.tensors[0]), test.tensors[1])
