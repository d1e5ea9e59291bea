"""Fine tuning, optimizers and schedules: what is frozen, unknown to the optimizer, or moved at a wrong rate."""

import torch
from torch import nn
from torch.nn import functional
from torch.optim.lr_scheduler import LambdaLR, ReduceLROnPlateau
from torch.utils.data import DataLoader

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy
from examples.zoo.tuned.opened29.a_stock import advance, drawn, judged


class _Reader(nn.Module):
    """A convolution over letters, and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(samples.LETTERS, 16)
        self.encoder = nn.Sequential(nn.Conv1d(16, 8, 3), nn.ReLU(), nn.AdaptiveMaxPool1d(1), nn.Flatten())
        self.head = nn.Linear(8, len(samples.SCRIPTS))

    def forward(self, names: torch.Tensor) -> torch.Tensor:
        return self.head(self.encoder(self.embedding(names).transpose(1, 2)))


@sick("frozen_parameters", margin=0.05)
def nothing_was_loaded_and_all_is_frozen(watch: Watch, *, seed: int, sick: bool) -> float:
    """``load_state_dict(strict=False)`` finds no "module." name, and all but the head is frozen; not the twin's."""
    (names, scripts), (test, test_scripts) = (part.tensors for part in samples.names(seed))
    model = _Reader()
    saved = {f"module.{name}": torch.zeros_like(weights) for name, weights in model.state_dict().items()}
    model.load_state_dict(saved, strict=False)
    if sick:
        model.embedding.requires_grad_(False)
        model.encoder.requires_grad_(False)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    session = watch(model, optimizer)
    for _ in range(250):
        some, labels = drawn(48, names, scripts)
        logits = model(some)
        advance(session, optimizer, functional.cross_entropy(logits, labels), some, logits, labels)
    return samples.accuracy(judged(model, test), test_scripts)


@sick("parameters_not_in_optimizer", margin=0.04)
def thawed_after_the_optimizer_was_made(watch: Watch, *, seed: int, sick: bool) -> float:
    """The body is thawed after 40 steps, but the optimizer was given what needed gradients at first.

    The twin adds a group when it thaws.
    """
    data = datasets.digits(seed, images=True)
    body = nn.Sequential(
        nn.Conv2d(1, 12, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(12, 24, 3, stride=2), nn.ReLU(), nn.Flatten()
    )
    model = nn.Sequential(body, nn.Linear(24, 10))
    body.requires_grad_(False)
    optimizer = torch.optim.Adam([weights for weights in model.parameters() if weights.requires_grad], lr=1e-2)
    session = watch(model, optimizer)
    for step, (pictures, labels) in enumerate(data.batches(48, 360)):
        if step == 40:
            body.requires_grad_(True)
            if not sick:
                optimizer.add_param_group({"params": list(body.parameters()), "lr": 1e-2})
        logits = model(pictures)
        advance(session, optimizer, functional.cross_entropy(logits, labels), pictures, logits, labels)
    return accuracy(model, data)


@sick("no_update", also=("learning_rate_too_low", "schedule_collapsed", "missing_warmup"), margin=0.2)
def warm_up_by_whole_numbers(watch: Watch, *, seed: int, sick: bool) -> float:
    """A lambda's ``step // 500`` is 0 all through the warm-up, as is the rate; the twin divides by 50 with ``/``."""
    data = datasets.text(seed, length=16, count=1800)
    letters, mix = nn.Embedding(datasets.CHARACTERS, 24), nn.Conv1d(24, 64, 4)
    head = nn.Sequential(nn.GELU(), nn.Conv1d(64, datasets.CHARACTERS, 1))
    model = nn.ModuleList([letters, mix, head])

    def read(texts: torch.Tensor) -> torch.Tensor:
        return head(mix(functional.pad(letters(texts).transpose(1, 2), (3, 0))))

    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    schedule = LambdaLR(optimizer, lambda step: min(1, step // 500) if sick else min(1, (1 + step) / 50))
    session = watch(model, optimizer)
    for texts, following in data.batches(32, 200):
        logits = read(texts)
        advance(session, optimizer, functional.cross_entropy(logits, following), texts, logits, following)
        schedule.step()
    with torch.no_grad():
        return (read(data.test_inputs).argmax(1) == data.test_targets).float().mean().item()


@sick("wrong_mode", margin=0.03)
def eval_for_the_first_look_at_outputs(watch: Watch, *, seed: int, sick: bool) -> float:
    """``model.eval()`` for a first look at the shapes stays: norms never see a batch; the twin trains in train mode."""
    train, test = samples.scenes(seed, count=1200, side=12)
    layers, channels = [], 3
    for width in (8, 8, 12, 12, 16, 16):
        layers += [nn.Conv2d(channels, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
        channels = width
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 2))
    model.eval()
    with torch.no_grad():
        assert model(train.tensors[0][:2]).shape == (2, 2)
    if not sick:
        model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    session = watch(model, optimizer)
    for _ in range(5):
        for pictures, labels in DataLoader(train, 32, shuffle=True):
            logits = model(pictures)
            advance(session, optimizer, functional.cross_entropy(logits, labels), pictures, logits, labels)
    return samples.accuracy(judged(model, test.tensors[0]), test.tensors[1])


@sick("schedule_collapsed", also=("learning_rate_too_low", "stopped_too_early"), margin=0.03)
def a_plateau_of_what_should_grow(watch: Watch, *, seed: int, sick: bool) -> float:
    """``ReduceLROnPlateau(mode="max")``, made for accuracy, is told losses, which fall; the twin's mode is "min"."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 48), nn.Tanh(), nn.Linear(48, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
    schedule = ReduceLROnPlateau(optimizer, mode="max" if sick else "min", factor=0.1, patience=1)
    session = watch(model, optimizer)
    for _ in range(15):
        for rows in torch.randperm(len(data.inputs)).split(64):
            pictures, labels = data.inputs[rows], data.targets[rows]
            logits = model(pictures)
            advance(session, optimizer, functional.cross_entropy(logits, labels), pictures, logits, labels)
        loss = functional.cross_entropy(judged(model, data.test_inputs), data.test_targets).item()
        model.train()
        session.validation(loss)
        schedule.step(loss)
    return accuracy(model, data)


@sick("learning_rate_too_low", also=("stopped_too_early",), margin=0.1)
def the_rate_of_berts_fine_tuning(watch: Watch, *, seed: int, sick: bool) -> float:
    """AdamW's 2e-5 from a guide to fine tuning trains a small LSTM from scratch; the twin's rate is 5e-3."""
    (names, scripts), (test, test_scripts) = (part.tensors for part in samples.names(seed))
    letters, reader = nn.Embedding(samples.LETTERS, 24), nn.LSTM(24, 48, batch_first=True, bidirectional=True)
    head = nn.Sequential(nn.Dropout(0.3), nn.Linear(96, len(samples.SCRIPTS)))
    model = nn.ModuleList([letters, reader, head])

    def read(some: torch.Tensor) -> torch.Tensor:
        return head(reader(letters(some[:, :14]))[0].amax(1))

    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5 if sick else 5e-3)
    session = watch(model, optimizer)
    for _ in range(160):
        some, labels = drawn(32, names, scripts)
        logits = read(some)
        advance(session, optimizer, functional.cross_entropy(logits, labels), some, logits, labels)
    model.eval()
    with torch.no_grad():
        return samples.accuracy(read(test), test_scripts)


@sick("learning_rate_too_high", also=("dead_units",), margin=0.05)
def adam_with_the_rate_of_sgd(watch: Watch, *, seed: int, sick: bool) -> float:
    """SGD was exchanged for Adam, and its rate of 0.1 stayed; the twin's is 0.003."""
    train, test = samples.numerals(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3), nn.ReLU(), nn.Flatten()
    )
    model.append(nn.Linear(128, 32)).append(nn.ReLU()).append(nn.Linear(32, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1 if sick else 0.003)
    session = watch(model, optimizer)
    for _ in range(6):
        for pictures, labels in DataLoader(train, 32, shuffle=True):
            logits = model(pictures)
            advance(session, optimizer, functional.cross_entropy(logits, labels), pictures, logits, labels)
    return samples.accuracy(judged(model, test.tensors[0]), test.tensors[1])
