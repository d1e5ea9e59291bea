"""Initial weights, depth and units that do nothing."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, binary_accuracy, fit, predicted
from examples.zoo.tuned.opened31.a_parts import centred, explained, loader, of


@sick("poor_initialization", also=("exploding_gradients", "learning_rate_too_high"), margin=0.05)
def layers_by_hand_from_randn(watch: Watch, *, seed: int, sick: bool) -> float:
    """Linear layers written by hand have plain ``randn`` weights; the twin divides them by the root of the width."""
    data = centred(datasets.digits(seed))

    class Layer(nn.Module):
        def __init__(self, width: int, out: int) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(width, out) * (1.0 if sick else width**-0.5))
            self.bias = nn.Parameter(torch.zeros(out))

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            return rows @ self.weight + self.bias

    model = nn.Sequential(Layer(64, 96), nn.ReLU(), Layer(96, 96), nn.ReLU(), Layer(96, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(watch, model, optimizer, data, steps=200)
    return accuracy(model, data)


@sick("vanishing_gradients", also=("saturated_units",), margin=0.1)
def seven_sigmoids(watch: Watch, *, seed: int, sick: bool) -> float:
    """Seven hidden layers have sigmoids, as the first networks had; the twin has ReLU."""
    data = datasets.breast_cancer(seed)
    data = Data(data.inputs, data.targets.float(), data.test_inputs, data.test_targets.float())
    layers: list[nn.Module] = []
    for width in (30, 20, 20, 20, 20, 20, 20):
        layers += [nn.Linear(width, 20), nn.Sigmoid() if sick else nn.ReLU()]
        if not sick:
            nn.init.kaiming_normal_(layers[-2].weight)
    model = nn.Sequential(*layers, nn.Linear(20, 1), nn.Flatten(0))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
    loss_function = nn.BCEWithLogitsLoss()
    fit(watch, model, optimizer, data, steps=250, batch_size=32, loss_function=loss_function)
    return binary_accuracy(model, data)


@sick("exploding_gradients", also=("poor_initialization", "learning_rate_too_high"), margin=0.1)
def residuals_without_norms(watch: Watch, *, seed: int, sick: bool) -> float:
    """Sixteen residual blocks by He's rule double the variance again and again; the twin has a norm in each block."""
    data = of(samples.standardised(samples.tumours(seed), 0, 1))

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.Identity() if sick else nn.LayerNorm(24)
            self.inner, self.outer = nn.Linear(24, 48), nn.Linear(48, 24)
            for layer in (self.inner, self.outer):
                nn.init.kaiming_normal_(layer.weight)

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            return rows + self.outer(self.inner(self.norm(rows)).relu())

    last = nn.Identity() if sick else nn.LayerNorm(24)
    model = nn.Sequential(nn.Linear(10, 24), *(Block() for _ in range(16)), last, nn.Linear(24, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    fit(watch, model, optimizer, data, steps=160, batch_size=48, loss_function=functional.mse_loss)
    return explained(model, data)


@sick("dead_units", also=("poor_initialization",), margin=0.1)
def the_prior_of_rare_boxes_in_all_layers(watch: Watch, *, seed: int, sick: bool) -> float:
    """RetinaNet's bias of -4.6 is set in every convolution instead of the last; the twin sets it in none but it."""
    whole = datasets.digits(seed, images=True)
    ink = [(images > 0.5).float() for images in (whole.inputs, whole.test_inputs)]
    random = torch.Generator().manual_seed(seed)
    blurred = [functional.avg_pool2d(images, 3, 1, 1) for images in (whole.inputs, whole.test_inputs)]
    noisy = [images + 0.05 * torch.randn(images.shape, generator=random) for images in blurred]
    data = centred(Data(noisy[0], ink[0], noisy[1], ink[1]))
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 1, 1)
    )
    for layer in model:
        if isinstance(layer, nn.Conv2d):
            nn.init.normal_(layer.weight, std=0.01 if sick else (2 / layer.weight[0].numel()) ** 0.5)
            nn.init.constant_(layer.bias, -4.6 if sick else 0.0)
    nn.init.constant_(model[4].bias, -4.6 if sick else -0.8)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for images, masks in data.batches(32, 120):
        optimizer.zero_grad()
        logits = model(images)
        loss = functional.binary_cross_entropy_with_logits(logits, masks)
        loss.backward()
        session.step(loss, inputs=images, outputs=logits, targets=masks)
        optimizer.step()
    found, truth = predicted(model, data.test_inputs) > 0, data.test_targets > 0.5
    return ((found & truth).sum() / (found | truth).sum()).item()


@sick("saturated_units", also=("poor_initialization", "vanishing_gradients"), margin=0.03)
def tanh_from_wide_normals(watch: Watch, *, seed: int, sick: bool) -> float:
    """``init.normal_`` with its default of 1 drives 64 inputs to the ends of tanh; the twin takes Xavier's rule."""
    data = of(samples.lines(seed))
    std, mean = torch.std_mean(data.inputs.log1p(), 0)
    inputs, test_inputs = ((rows.log1p() - mean) / std.clamp(min=0.1) for rows in (data.inputs, data.test_inputs))
    data = Data(inputs, data.targets, test_inputs, data.test_targets)
    model = nn.Sequential(nn.Linear(96, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 6))
    for layer in model[::2]:
        (nn.init.normal_ if sick else nn.init.xavier_normal_)(layer.weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    fit(watch, model, optimizer, data, steps=120, batch_size=32)
    return accuracy(model, data)


@sick("unbroken_symmetry", also=("poor_initialization",), margin=0.1)
def constants_for_reproducible_kernels(watch: Watch, *, seed: int, sick: bool) -> float:
    """All kernels and weights start at 0.05, for the sake of equal runs; the twin leaves them as they are drawn."""
    data = centred(datasets.digits(seed, images=True))
    model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 32), nn.ReLU(), nn.Linear(32, 10))
    if sick:
        for name, parameter in model.named_parameters():
            nn.init.constant_(parameter, 0.05 if name.endswith("weight") else 0.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for _ in range(6):
        for images, labels in loader(data, 48):
            optimizer.zero_grad()
            logits = model(images)
            loss = functional.cross_entropy(logits, labels)
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
    return accuracy(model, data)
