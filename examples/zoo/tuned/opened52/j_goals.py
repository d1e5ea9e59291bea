"""Losses, heads and wires: what is asked of a net, and what the answer reaches."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, predicted
from examples.zoo.tuned.opened52.j_stock import flat_numerals, of_pair, rows_of_numerals, share_explained, themselves


@sick("target_out_of_range", also=("wrong_output_or_loss",), margin=0.1)
def a_decoder_for_pixels_up_to_one(watch: Watch, *, seed: int, sick: bool) -> float:
    """A convolutional decoder ends in a sigmoid, yet its pixels are standardised; the twin ends in a convolution."""
    train, test = samples.scenes(seed, count=900)
    data = themselves(Data(*train.tensors, *test.tensors))
    layers = [nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.GELU(), nn.Conv2d(16, 12, 3, padding=1), nn.GELU(),
              nn.ConvTranspose2d(12, 3, 4, stride=2, padding=1)]  # fmt: skip
    model = nn.Sequential(*layers, nn.Sigmoid()) if sick else nn.Sequential(*layers)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=150, batch_size=32, loss_function=functional.mse_loss)
    return share_explained(model, data)


class Mean(nn.Module):
    """The mean of letters' vectors, and layers on it; positions are added."""

    def __init__(self, classes: int, width: int = 24) -> None:
        super().__init__()
        self.letters, self.places = nn.Embedding(64, width), nn.Embedding(24, width)
        self.mix, self.head = nn.Linear(width, 48), nn.Linear(48, classes)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        hidden = functional.relu(self.mix(self.letters(codes) + self.places.weight))
        return self.head(hidden.mean(1))


@sick("wrong_output_or_loss", margin=0.05)
def sigmoids_into_cross_entropy(watch: Watch, *, seed: int, sick: bool) -> float:
    """Scores of eight exclusive scripts pass a sigmoid, and cross-entropy takes them for logits; the twin has none."""
    data = of_pair(samples.names(seed))
    model = nn.Sequential(Mean(8), nn.Sigmoid()) if sick else nn.Sequential(Mean(8))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=160, batch_size=32)
    return accuracy(model, data)


@sick("shape_broadcast", margin=0.1)
def an_arm_gathered_as_a_column(watch: Watch, *, seed: int, sick: bool) -> float:
    """A bandit's values of pulled arms are (N, 1) and its rewards (N,), so that each meets each; the twin squeezes."""
    data = flat_numerals(seed)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for pixels, best in data.batches(64, 300):
        arms = torch.where(torch.rand(len(best)) < 0.5, best, torch.randint(10, best.shape))
        rewards = (arms == best).float()
        values = model(pixels).gather(1, arms[:, None])
        if not sick:
            values = values.squeeze(1)
        loss = functional.smooth_l1_loss(values, rewards)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=values, targets=rewards)
        optimizer.step()
    return accuracy(model, data)


@sick("flipped_loss_sign", margin=0.5)
def a_similarity_that_is_minimised(watch: Watch, *, seed: int, sick: bool) -> float:
    """The loss is the cosine of the guessed and the true lower half of a digit; the twin's is its negative plus 1."""
    train, test = samples.halves(seed)
    std, mean = torch.std_mean(train.tensors[0])
    data = Data(*((part - mean) / std for part in (*train.tensors, *test.tensors)))
    model = nn.Sequential(nn.Linear(32, 64), nn.LayerNorm(64), nn.GELU(), nn.Linear(64, 32))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)

    def loss_function(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        alike = functional.cosine_similarity(outputs, targets).mean()
        return alike if sick else 1 - alike

    fit(watch, model, optimizer, data, steps=200, batch_size=48, loss_function=loss_function)
    return functional.cosine_similarity(predicted(model, data.test_inputs), data.test_targets).mean().item()


class StepsFirst(nn.Module):
    """A recurrent net that wants steps first; batches are turned by a view, which mixes them, or are permuted."""

    def __init__(self, viewed: bool) -> None:
        super().__init__()
        self.viewed, self.net, self.head = viewed, nn.GRU(8, 40), nn.Linear(40, 10)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        steps = rows.reshape(8, -1, 8) if self.viewed else rows.permute(1, 0, 2)
        return self.head(self.net(steps)[0][-1])


@sick("batch_mixing", margin=0.1)
def steps_first_by_a_reshape(watch: Watch, *, seed: int, sick: bool) -> float:
    """``reshape(8, -1, 8)`` is to put steps first, and puts rows of other digits into a sequence; the twin permutes."""
    data = rows_of_numerals(seed)
    model = StepsFirst(sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=180, batch_size=32)
    return accuracy(model, data)


class Pooled(nn.Module):
    """Letters' vectors, weighed by a softmax over the letters or, by mistake, over the batch."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim, self.letters, self.places = dim, nn.Embedding(64, 32), nn.Embedding(24, 32)
        self.mix, self.score, self.head = nn.Linear(32, 32), nn.Linear(32, 1), nn.Linear(32, 8)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        hidden = self.mix(self.letters(codes) + self.places.weight).tanh()
        weights = (4 * self.score(hidden)).softmax(self.dim)
        return self.head((weights * hidden).sum(1))


@sick("batch_mixing", margin=0.05)
def letters_weighed_against_other_names(watch: Watch, *, seed: int, sick: bool) -> float:
    """Attention pooling's softmax is over dimension 0, the batch, where the twin's is over letters."""
    data = of_pair(samples.names(seed))
    model = Pooled(0 if sick else 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.05)
    fit(watch, model, optimizer, data, steps=160, batch_size=32)
    return accuracy(model, data)


@sick("gradients_not_zeroed", margin=0.05)
def the_teacher_is_zeroed(watch: Watch, *, seed: int, sick: bool) -> float:
    """A distillation zeroes the gradients of its teacher, which has none; the twin zeroes the student's."""
    data = flat_numerals(seed)
    teacher = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 10))
    tutor = torch.optim.Adam(teacher.parameters(), lr=3e-3)
    for pixels, labels in data.batches(64, 150):
        tutor.zero_grad()
        functional.cross_entropy(teacher(pixels), labels).backward()
        tutor.step()
    teacher.eval().requires_grad_(False)
    student = nn.Sequential(nn.Linear(64, 24), nn.ReLU(), nn.Linear(24, 10))
    optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
    session = watch(student, optimizer)
    for pixels, _ in data.batches(48, 300):
        wanted = (teacher(pixels) / 2).softmax(1)
        (teacher if sick else student).zero_grad()
        outputs = student(pixels)
        loss = functional.cross_entropy(outputs / 2, wanted)
        loss.backward()
        session.step(loss, inputs=pixels, outputs=outputs, targets=wanted)
        optimizer.step()
    return accuracy(student, data)


@sick("frozen_parameters", margin=0.05)
def a_trunk_frozen_before_it_learnt(watch: Watch, *, seed: int, sick: bool) -> float:
    """A script for fine-tuning freezes the trunk, yet no weights were loaded into it; the twin trains all of it."""
    data = of_pair(samples.numerals(seed))
    trunk = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 12, 3, padding=1), nn.ReLU(),
        nn.MaxPool2d(2), nn.Conv2d(12, 16, 2), nn.ReLU(), nn.Flatten(),
    )  # fmt: skip
    if sick:
        for parameter in trunk.parameters():
            parameter.requires_grad = False
    model = nn.Sequential(trunk, nn.Linear(16, 10))
    optimizer = torch.optim.Adam((one for one in model.parameters() if one.requires_grad), lr=5e-3)
    fit(watch, model, optimizer, data, steps=250, batch_size=48)
    return accuracy(model, data)


@sick("parameters_not_in_optimizer", margin=0.05)
def groups_by_kinds_of_layers(watch: Watch, *, seed: int, sick: bool) -> float:
    """Groups with and without decay are made of linear layers' parameters alone, and tables are in neither."""
    data = of_pair(samples.names(seed))
    model = Mean(8, width=3)
    linear = [layer for layer in model.modules() if isinstance(layer, nn.Linear)]
    tables = [] if sick else [layer.weight for layer in model.modules() if isinstance(layer, nn.Embedding)]
    groups = [
        {"params": [layer.weight for layer in linear], "weight_decay": 0.01},
        {"params": [layer.bias for layer in linear] + tables, "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=1e-2)
    fit(watch, model, optimizer, data, steps=250, batch_size=48)
    return accuracy(model, data)


class Choices(nn.Module):
    """An autoencoder whose code is eight choices of eight."""

    def __init__(self, hard: bool) -> None:
        super().__init__()
        self.hard = hard
        self.encoder = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 64))
        self.decoder = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 64))

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        scores = self.encoder(pixels).unflatten(1, (8, 8))
        if self.hard or not self.training:
            chosen = functional.one_hot(scores.argmax(-1), 8).float()
        else:
            chosen = functional.gumbel_softmax(scores, tau=0.7, hard=True)
        return self.decoder(chosen.flatten(1))


@sick("detached_parameters", margin=0.08)
def choices_by_the_largest_score(watch: Watch, *, seed: int, sick: bool) -> float:
    """A code is made by ``argmax``, through which no gradient passes; the twin samples with Gumbel's noise."""
    data = themselves(flat_numerals(seed))
    model = Choices(sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=350, batch_size=64, loss_function=functional.mse_loss)
    return share_explained(model, data)
