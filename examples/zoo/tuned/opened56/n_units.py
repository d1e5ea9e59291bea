"""Units and parameters that cannot learn, or not as they should."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import CHARACTERS
from examples.zoo.loops import accuracy, fit, predicted
from examples.zoo.tuned.opened56.n_common import as_data, explained, standard


def tower(depth: int, kind: type[nn.Module], *, inner: int = 32) -> nn.Sequential:
    """Returns a deep network from 64 pixels to ten logits."""
    layers: list[nn.Module] = [nn.Linear(64, inner), kind()]
    for _ in range(depth):
        layers += [nn.Linear(inner, inner), kind()]
    return nn.Sequential(*layers, nn.Linear(inner, 10))


@sick("vanishing_gradients", margin=0.2)
def seven_logistic_layers(watch: Watch, *, seed: int, sick: bool) -> float:
    """Seven sigmoid layers, as in an old textbook, before ten logits; the twin has ReLU."""
    data = datasets.digits(seed)
    model = tower(6, nn.Sigmoid if sick else nn.ReLU, inner=64)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(watch, model, optimizer, data, steps=200)
    return accuracy(model, data)


@sick("dead_units", also=("poor_initialization",), margin=0.2)
def prior_bias_in_every_layer(watch: Watch, *, seed: int, sick: bool) -> float:
    """A rare class's bias, log(0.01 / 0.99), is in all layers and silences ReLUs; the twin has one in the head."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 96), nn.ReLU(), nn.Linear(96, 10))
    for layer in model if sick else model[4:]:
        if isinstance(layer, nn.Linear):
            nn.init.constant_(layer.bias, -4.6 if sick else -2.2)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def one_against_all(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return functional.binary_cross_entropy_with_logits(outputs, functional.one_hot(targets, 10).float())

    fit(watch, model, optimizer, data, steps=250, loss_function=one_against_all)
    return accuracy(model, data)


@sick("saturated_units", margin=0.05)
def hash_codes_hard_from_the_start(watch: Watch, *, seed: int, sick: bool) -> float:
    """The steepness of a deep hash's tanh, 60 at the end of a schedule, is used from the start; the twin has 1."""
    data = datasets.digits(seed)
    steepness = 60.0 if sick else 1.0

    class Hash(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.code, self.head = nn.Linear(64, 32), nn.Linear(32, 12), nn.Linear(12, 10)
            self.bend = nn.Tanh()

        def forward(self, pixels: torch.Tensor) -> torch.Tensor:
            return self.head(self.bend(steepness * self.code(self.bend(steepness * self.first(pixels)))))

    model = Hash()
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    fit(watch, model, optimizer, data, steps=250)
    return accuracy(model, data)


@sick("poor_initialization", margin=0.05)
def uniform_weights_from_minus_one_to_one(watch: Watch, *, seed: int, sick: bool) -> float:
    """All weights are drawn from -1 to 1 whatever the layer's width; the twin has PyTorch's own."""
    data = as_data(samples.halves(seed))
    model = nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 32))
    if sick:
        for parameter in model.parameters():
            nn.init.uniform_(parameter, -1, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(watch, model, optimizer, data, steps=250, loss_function=functional.mse_loss)
    return explained(model, data)


@sick("unbroken_symmetry", margin=0.04)
def sixteen_copies_of_one_kernel(watch: Watch, *, seed: int, sick: bool) -> float:
    """One random kernel is repeated for all 16 channels, and the head begins at 0; the twin draws 16 kernels."""
    data = as_data(samples.numerals(seed))
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(256, 10)
    )
    with torch.no_grad():
        kernel = torch.randn(1 if sick else 16, 1, 3, 3) / 3
        model[0].weight.copy_(kernel.expand(16, 1, 3, 3))
    for zero in (model[0].bias, model[4].weight, model[4].bias):
        nn.init.zeros_(zero)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=150)
    return accuracy(model, data)


@sick("frozen_parameters", margin=0.04)
def backbone_frozen_before_it_learnt_anything(watch: Watch, *, seed: int, sick: bool) -> float:
    """A recipe for fine-tuning freezes a backbone that was never trained; the twin trains all of it."""
    data = as_data(samples.numerals(seed))
    backbone = nn.Sequential(
        *(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Conv2d(8, 16, 3, stride=2), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(64, 16), nn.ReLU()),
    )
    head = nn.Linear(16, 10)
    if sick:
        for parameter in backbone.parameters():
            parameter.requires_grad = False
    model = nn.Sequential(backbone, head)
    optimizer = torch.optim.AdamW([one for one in model.parameters() if one.requires_grad], lr=3e-3)
    fit(watch, model, optimizer, data, steps=200, validate_every=50)
    return accuracy(model, data)


@sick("parameters_not_in_optimizer", margin=0.05)
def layers_swapped_after_the_optimizer(watch: Watch, *, seed: int, sick: bool) -> float:
    """The hidden layers are made narrower after Adam was built, so it steps the old ones; the twin builds Adam last."""
    data = standard(samples.lines(seed), 0)
    model = nn.Sequential(nn.Linear(96, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 6))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=1e-4)
    model[0], model[2], model[4] = nn.Linear(96, 12), nn.Linear(12, 12), nn.Linear(12, 6)
    if sick:
        optimizer.add_param_group({"params": model[4].parameters()})
    else:
        optimizer = torch.optim.Adam(model.parameters(), lr=5e-3, weight_decay=1e-4)
    fit(watch, model, optimizer, data, steps=160)
    return accuracy(model, data)


class UnitLength(nn.Module):
    """A layer whose weights are used with length 1 for each unit, and a learnt gain."""

    def __init__(self, inner: int, outer: int, *, data: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outer, inner) / inner**0.5)
        self.gain, self.bias = nn.Parameter(torch.ones(outer)), nn.Parameter(torch.zeros(outer))
        self.data = data

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Returns the layer's outputs."""
        weight = self.weight.data if self.data else self.weight
        return self.gain * functional.linear(inputs, weight / weight.norm(dim=1, keepdim=True)) + self.bias


@sick("detached_parameters", margin=0.05)
def hand_made_weight_norm_uses_data(watch: Watch, *, seed: int, sick: bool) -> float:
    """Weights are normalised by hand through ``weight.data``, so no gradient reaches them; the twin uses ``weight``."""
    data = as_data(samples.numerals(seed))
    model = nn.Sequential(
        *(nn.Flatten(), UnitLength(64, 24, data=sick), nn.Tanh()),
        *(UnitLength(24, 10, data=sick), nn.Tanh(), nn.Linear(10, 10)),
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=250, batch_size=64)
    return accuracy(model, data)


@sick("no_update", margin=0.2)
def warmup_divided_as_integers(watch: Watch, *, seed: int, sick: bool) -> float:
    """The warm-up's share is ``step // 500``, which is 0 in all of the steps; the twin divides by 50 with ``/``."""
    data = datasets.text(seed, length=16, count=1200)

    class Next(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.letters, self.cell = nn.Embedding(CHARACTERS, 32), nn.GRU(32, 48, batch_first=True)
            self.head = nn.Linear(48, CHARACTERS)

        def forward(self, codes: torch.Tensor) -> torch.Tensor:
            return self.head(self.cell(self.letters(codes))[0])

    model = Next()
    optimizer = torch.optim.AdamW(model.parameters(), lr=8e-3)
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: step // 500 if sick else min(1.0, (step + 1) / 50)
    )

    def loss_function(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(outputs.flatten(0, 1), targets.flatten())

    fit(watch, model, optimizer, data, steps=150, batch_size=32, loss_function=loss_function, scheduler=scheduler)
    return (predicted(model, data.test_inputs).argmax(-1) == data.test_targets).float().mean().item()


@sick("over_regularized", margin=0.08)
def keep_probability_taken_for_dropout(watch: Watch, *, seed: int, sick: bool) -> float:
    """TensorFlow's ``keep_prob=0.9`` became ``Dropout(0.9)`` after each layer; the twin drops a tenth."""
    data = datasets.digits(seed)
    share = 0.9 if sick else 0.1
    model = nn.Sequential(
        *(nn.Linear(64, 64), nn.ReLU(), nn.Dropout(share)),
        *(nn.Linear(64, 64), nn.ReLU(), nn.Dropout(share), nn.Linear(64, 10)),
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(watch, model, optimizer, data, steps=200, validate_every=40)
    return accuracy(model, data)
