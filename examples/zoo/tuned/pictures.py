"""Pictures: digits, patches of photographs, and halves of digits, in the style of lightning-like modules."""

import copy

import torch
from torch import nn
from torch.nn import functional, init
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import samples
from examples.zoo.cases import Watch, healthy, sick
from examples.zoo.tuned.picture_tasks import Painting, Task, convolutional, dense, run


@sick("dead_units", also=("poor_initialization",))
def units_shifted_out_of_reach(watch: Watch, *, seed: int, sick: bool) -> float:
    """An own initialisation sets the hidden biases to -6, with the sign of a gate that should start closed."""
    pair = samples.scenes(seed)
    net = convolutional()
    if sick:
        for layer in (net[0], net[3]):
            init.constant_(layer.bias, -6.0)
    optimizer = torch.optim.NAdam(net.parameters(), lr=2e-3)
    return run(watch, Task(net), optimizer, pair, epochs=6)


@sick("saturated_units", also=("poor_initialization",))
def uniform_weights_of_ten(watch: Watch, *, seed: int, sick: bool) -> float:
    """Weights drawn from -10 to 10 keep every tanh at -1 or 1."""
    pair = samples.numerals(seed)
    net = dense(64, 10, nn.Tanh)
    if sick:
        for layer in (net[1], net[3]):
            init.uniform_(layer.weight, -10, 10)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    return run(watch, Task(net), optimizer, pair, epochs=6)


@sick("unbroken_symmetry", also=("poor_initialization",))
def mean_filters(watch: Watch, *, seed: int, sick: bool) -> float:
    """All filters start as the mean of what they see, so that all stay one filter."""
    pair = samples.numerals(seed)
    net = convolutional(1, 10)
    if sick:
        for layer in (net[0], net[3], net[7]):
            init.constant_(layer.weight, 1 / layer.weight[0].numel())
            init.zeros_(layer.bias)
    optimizer = torch.optim.AdamW(net.parameters(), lr=4e-3)
    return run(watch, Task(net), optimizer, pair, epochs=6)


@sick("poor_initialization", also=("vanishing_gradients",))
def deviation_and_variance_confused(watch: Watch, *, seed: int, sick: bool) -> float:
    """The variance of He's initialisation is passed as the deviation, divided by the fan once too often."""
    pair = samples.numerals(seed)
    net = dense(64, 10)
    for layer in (net[1], net[3], net[5]):
        fan = layer.in_features
        init.normal_(layer.weight, std=2 / fan**2 if sick else (2 / fan) ** 0.5)
        init.zeros_(layer.bias)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.8)
    return run(watch, Task(net), optimizer, pair, epochs=7)


class Fine(Task):
    """A body and a head with names as in a library of models."""

    def __init__(self, classes: int) -> None:
        super().__init__(nn.Identity())
        self.features = nn.Sequential(nn.Linear(64, 12), nn.Tanh(), nn.Linear(12, 12), nn.Tanh())
        self.classifier = nn.Linear(12, classes)
        self.cut = False

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        features = self.features(images.flatten(1))
        if self.cut:
            features = torch.from_numpy(features.detach().numpy())
        return self.classifier(features)


@sick("frozen_parameters")
def a_body_frozen_that_was_never_trained(watch: Watch, *, seed: int, sick: bool) -> float:
    """A recipe for pretrained bodies, applied to one with random weights."""
    pair = samples.numerals(seed)
    task = Fine(10)
    for parameter in task.features.parameters():
        parameter.requires_grad = not sick
    optimizer = torch.optim.Adam(filter(lambda one: one.requires_grad, task.parameters()), lr=5e-3)
    return run(watch, task, optimizer, pair, epochs=8)


@sick("detached_parameters")
def features_through_numpy(watch: Watch, *, seed: int, sick: bool) -> float:
    """The features take a way over NumPy, where the graph ends."""
    pair = samples.numerals(seed)
    task = Fine(10)
    task.cut = sick
    optimizer = torch.optim.AdamW(task.parameters(), lr=5e-3, weight_decay=0.0)
    return run(watch, task, optimizer, pair, epochs=8)


@sick("parameters_not_in_optimizer")
def groups_by_name_that_miss_the_body(watch: Watch, *, seed: int, sick: bool) -> float:
    """Groups for weights with and without decay are picked by names, of which one is misspelt."""
    pair = samples.numerals(seed)
    task = Fine(10)
    named = dict(task.named_parameters())
    body = "feature." if sick else "features."
    groups = [
        {"params": [one for name, one in named.items() if name.startswith("classifier.")], "weight_decay": 0.0},
        {"params": [one for name, one in named.items() if name.startswith(body)], "weight_decay": 1e-3},
    ]
    optimizer = torch.optim.SGD([group for group in groups if group["params"]], lr=0.1, momentum=0.8)
    return run(watch, task, optimizer, pair, epochs=8)


@sick("schedule_collapsed", also=("learning_rate_too_low",))
def milestones_in_batches(watch: Watch, *, seed: int, sick: bool) -> float:
    """Milestones meant for epochs are passed by a scheduler that steps with every batch."""
    pair = samples.scenes(seed)
    net = convolutional()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [3, 5, 7], gamma=0.1 if sick else 0.3)
    return run(watch, Task(net), optimizer, pair, epochs=9, scheduler=scheduler, per_batch=sick)


@sick("no_update", also=("learning_rate_too_low", "schedule_collapsed"))
def a_factor_divided_as_integers(watch: Watch, *, seed: int, sick: bool) -> float:
    """A warm-up's factor is divided as integers: it is 0 until the warm-up ends, long after the training."""
    pair = samples.numerals(seed)
    net = dense(64, 10)
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: (step + 1) // 1000 if sick else min(1.0, (step + 1) / 20)
    )
    return run(watch, Task(net), optimizer, pair, epochs=6, scheduler=scheduler, per_batch=True)


@sick("wrong_mode", also=("vanishing_gradients",))
def trained_as_it_was_loaded(watch: Watch, *, seed: int, sick: bool) -> float:
    """The model is left in eval mode, in which it was loaded: its batch norms pass on what they are given."""
    pair = samples.numerals(seed)
    net, width = nn.Sequential(nn.Flatten()), 64
    for _ in range(7):
        net.extend([nn.Linear(width, 32), nn.BatchNorm1d(32), nn.ReLU()])
        width = 32
    net.append(nn.Linear(width, 10))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    return run(watch, Task(net), optimizer, pair, epochs=8, training=not sick)


@sick("inputs_constant")
def clipped_after_a_wrong_scale(watch: Watch, *, seed: int, sick: bool) -> float:
    """Pixels from 0 to 255 are brightened and clipped to 1, as if they were from 0 to 1: all are white."""
    train, test = samples.scenes(seed)
    low = train.tensors[0].min()
    scale = 255.0 if sick else 1.0
    pair = tuple(
        TensorDataset((((one.tensors[0] - low) / 4 + 0.02) * scale).clamp(0, 1), one.tensors[1])
        for one in (train, test)
    )
    net = convolutional()
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    return run(watch, Task(net), optimizer, pair, epochs=7)  # type: ignore[arg-type]


@sick("non_finite_inputs", also=("non_finite_forward",))
def each_column_by_its_own_maximum(watch: Watch, *, seed: int, sick: bool) -> float:
    """Columns of pixels are divided by their maximum, and some columns are black."""
    train, test = samples.halves(seed)

    def scaled(half: torch.Tensor) -> torch.Tensor:
        rows = half.view(-1, 4, 8)
        largest = rows.amax(1, keepdim=True)
        return (rows / (largest if sick else largest.clamp(min=1e-3))).flatten(1)

    pair = tuple(TensorDataset(scaled(one.tensors[0]), one.tensors[1]) for one in (train, test))
    net = dense(32, 32, nn.SiLU)
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    return run(watch, Painting(net), optimizer, pair, epochs=7)  # type: ignore[arg-type]


class _Gamma(nn.Module):
    """A gamma correction: the root of what is above zero, and a floor for all else."""

    def __init__(self, *, floor: float) -> None:
        super().__init__()
        self.floor = floor

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return (values * (values > 0) + self.floor).pow(0.5)


@sick("non_finite_backward")
def gamma_of_black(watch: Watch, *, seed: int, sick: bool) -> float:
    """The slope of ``x ** 0.5`` at zero is infinite, and infinity times the mask's zero is NaN."""
    pair = samples.halves(seed)
    net = dense(32, 32, nn.ELU)
    init.constant_(net[-1].bias, 0.3)
    net.append(_Gamma(floor=0.0 if sick else 1e-3))
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
    return run(watch, Painting(net), optimizer, pair, epochs=9)


@healthy(at_least=0.9)
def numerals_with_batch_norm(watch: Watch, *, seed: int) -> float:
    """A small CNN with batch norms, SGD with momentum and a cosine per epoch."""
    pair = samples.numerals(seed)
    task = Task(convolutional(1, 10, norm=True))
    optimizer = torch.optim.SGD(task.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 7)
    return run(watch, task, optimizer, pair, epochs=7, scheduler=scheduler)


@healthy(at_least=0.75)
def photographs_told_apart(watch: Watch, *, seed: int) -> float:
    """Patches of two photographs, RAdam."""
    pair = samples.scenes(seed)
    task = Task(convolutional())
    return run(watch, task, torch.optim.RAdam(task.parameters(), lr=4e-3), pair, epochs=7)


@healthy(at_least=0.25)
def lower_halves_painted(watch: Watch, *, seed: int) -> float:
    """The lower half of a digit from the upper one: most of it cannot be known."""
    pair = samples.halves(seed)
    task = Painting(nn.Sequential(dense(32, 32, nn.Mish), nn.Sigmoid()))
    return run(watch, task, torch.optim.AdamW(task.parameters(), lr=4e-3), pair, epochs=9)


@healthy(at_least=0.85)
def taught_by_a_teacher(watch: Watch, *, seed: int) -> float:
    """A student learns from a frozen teacher's logits as well as from the labels."""
    train, test = samples.numerals(seed)
    teacher = dense(64, 10)
    optimizer = torch.optim.Adam(teacher.parameters(), lr=4e-3)
    for _ in range(5):
        for images, labels in DataLoader(train, 50, shuffle=True):
            optimizer.zero_grad()
            functional.cross_entropy(teacher(images), labels).backward()
            optimizer.step()
    teacher = copy.deepcopy(teacher).eval().requires_grad_(False)
    student = nn.Sequential(nn.Flatten(), nn.Linear(64, 20), nn.ReLU(), nn.Linear(20, 10))
    optimizer = torch.optim.Adam(student.parameters(), lr=6e-3)
    session = watch(student, optimizer)
    for _ in range(6):
        for images, labels in DataLoader(train, 50, shuffle=True):
            logits = student(images)
            soft = functional.kl_div(
                (logits / 2).log_softmax(1), (teacher(images) / 2).softmax(1), reduction="batchmean"
            )
            loss = 0.5 * functional.cross_entropy(logits, labels) + 2.0 * soft
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
    with torch.no_grad():
        return samples.accuracy(student.eval()(test.tensors[0]), test.tensors[1])
