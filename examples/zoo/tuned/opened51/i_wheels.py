"""Loops, optimizers, modes, and numbers that are none."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, predicted
from examples.zoo.tuned.opened51.i_bench import as_data, code_lines, explained, mlp, ratings, scripts


@sick("gradients_not_zeroed", margin=0.05)
def encoder_optimizer_without_zero_grad(watch: Watch, *, seed: int, sick: bool) -> float:
    """Encoder and decoder have an optimizer each, and only the decoder's is zeroed; the twin zeroes both."""
    pixels = datasets.digits(seed)
    model = nn.Sequential(mlp(64, 48, 10, activation=nn.ELU), mlp(10, 48, 64, activation=nn.ELU))
    encoder = torch.optim.Adam(model[0].parameters(), lr=3e-3)
    decoder = torch.optim.Adam(model[1].parameters(), lr=3e-3)
    session = watch(model, [encoder, decoder])
    for images, _ in pixels.batches(48, 250):
        decoder.zero_grad()
        if not sick:
            encoder.zero_grad()
        outputs = model(images)
        loss = functional.mse_loss(outputs, images)
        loss.backward()
        session.step(loss, inputs=images, outputs=outputs, targets=images)
        encoder.step()
        decoder.step()
    return samples.explained(predicted(model, pixels.test_inputs), pixels.test_inputs)


class Bag(nn.Module):
    """The mean of letters' vectors and a linear head, as in fastText."""

    def __init__(self, letters: nn.Embedding) -> None:
        super().__init__()
        self.letters, self.head = letters, nn.Linear(letters.embedding_dim, 8)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        return self.head(self.letters(codes).mean(1))


@sick("frozen_parameters", margin=0.05)
def embedding_of_random_vectors_by_from_pretrained(watch: Watch, *, seed: int, sick: bool) -> float:
    """``from_pretrained`` gets random vectors and freezes them; the twin says ``freeze=False``."""
    data = scripts(seed)
    vectors = torch.randn(samples.LETTERS, 4)
    model = Bag(nn.Embedding.from_pretrained(vectors, freeze=sick))
    optimizer = torch.optim.Adam((one for one in model.parameters() if one.requires_grad), lr=0.02)
    fit(watch, model, optimizer, data, steps=300, batch_size=32)
    return accuracy(model, data)


@sick("parameters_not_in_optimizer", margin=0.05)
def encoder_made_anew_after_the_optimizer(watch: Watch, *, seed: int, sick: bool) -> float:
    """The encoder is replaced when the optimizer has the old one's weights; the twin does so before."""
    pixels = datasets.digits(seed)
    model = nn.Sequential(mlp(64, 64, 6), mlp(6, 64, 64))
    if not sick:
        model[0] = mlp(64, 32, 6)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    if sick:
        model[0] = mlp(64, 32, 6)
    data = Data(pixels.inputs, pixels.inputs, pixels.test_inputs, pixels.test_inputs)
    fit(watch, model, optimizer, data, steps=250, loss_function=functional.mse_loss)
    return explained(model, data)


class Factors(nn.Module):
    """A factorisation of ratings."""

    def __init__(self, users: int, items: int, through_data: bool) -> None:
        super().__init__()
        self.users, self.items = nn.Embedding(users, 8), nn.Embedding(items, 8)
        self.level = nn.Embedding(items, 1)
        for table in (self.users, self.items, self.level):
            nn.init.normal_(table.weight, std=0.3)
        self.through_data = through_data

    def forward(self, pairs: torch.Tensor) -> torch.Tensor:
        user, item = pairs.unbind(1)
        factors = self.items.weight.data[item] if self.through_data else self.items(item)
        return (self.users(user) * factors).sum(1) + self.level(item).squeeze(1)


@sick("detached_parameters", margin=0.05)
def item_factors_taken_from_data(watch: Watch, *, seed: int, sick: bool) -> float:
    """A recommender looks items up in ``weight.data``, which no gradient reaches; the twin calls the embedding."""
    (users, items), data = ratings(seed)
    model = Factors(int(users), int(items), sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    fit(watch, model, optimizer, data, steps=250, batch_size=512, loss_function=functional.mse_loss)
    return explained(model, data)


@sick("no_update", also=("learning_rate_too_low",), margin=0.2)
def step_number_floor_divided_by_500(watch: Watch, *, seed: int, sick: bool) -> float:
    """A warm-up is written ``step // 500``, which is 0 in all steps; the twin's is over 50 and divides with /."""
    data = code_lines(seed)
    model = nn.Sequential(nn.Linear(96, 48), nn.GELU(), nn.Dropout(0.1), nn.Linear(48, 6))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0, (step + 1) // 500 if sick else (step + 1) / 50)
    )
    fit(watch, model, optimizer, data, steps=160, batch_size=32, scheduler=schedule)
    return accuracy(model, data)


@sick("wrong_mode", margin=0.05)
def dropout_left_on_in_validation(watch: Watch, *, seed: int, sick: bool) -> float:
    """Validation and prediction never call ``eval()``, so half of a narrow network drops out; the twin calls it."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 40), nn.ReLU(), nn.Dropout(0.5), nn.Linear(40, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    cut = 200
    seen = Data(data.inputs[cut:], data.targets[cut:], data.test_inputs, data.test_targets)

    @torch.no_grad()
    def infer(images: torch.Tensor) -> torch.Tensor:
        if not sick:
            model.eval()
        outputs = model(images)
        model.train()
        return outputs

    for step, (images, labels) in enumerate(seen.batches(48, 240), 1):
        optimizer.zero_grad()
        outputs = model(images)
        loss = functional.cross_entropy(outputs, labels)
        loss.backward()
        session.step(loss, inputs=images, outputs=outputs, targets=labels)
        optimizer.step()
        if step % 40 == 0:
            with session.validating():
                found = functional.cross_entropy(infer(data.inputs[:cut]), data.targets[:cut]).item()
            session.validation(found)
    return samples.accuracy(infer(data.test_inputs), data.test_targets)


class Standardising(nn.Module):
    """Puts a batch in units of its deviation, then looks at it."""

    def __init__(self, least: float) -> None:
        super().__init__()
        self.least, self.body = least, mlp(64, 48, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        std, mean = torch.std_mean(images, 0)
        return self.body((images - mean) / (std + self.least))


@sick("non_finite_forward", also=("non_finite_backward",), margin=0.3)
def corner_pixels_without_any_deviation(watch: Watch, *, seed: int, sick: bool) -> float:
    """A model divides pixels by their deviation, which is 0 in the corners; the twin's normalisation adds 1e-2."""
    data = datasets.digits(seed)
    model = Standardising(0.0) if sick else nn.Sequential(nn.BatchNorm1d(64, eps=1e-2), mlp(64, 48, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    fit(watch, model, optimizer, data, steps=120, batch_size=64)
    outputs = predicted(model, data.test_inputs)
    return float("nan") if outputs.isnan().any() else accuracy(model, data)


@sick("non_finite_backward", also=("non_finite_forward",), margin=0.3)
def root_of_a_distance_to_itself(watch: Watch, *, seed: int, sick: bool) -> float:
    """Pairs include each sample with itself, where a root's slope is infinite; the twin adds 1e-6."""
    data = as_data(samples.numerals(seed))
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 16))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for images, labels in data.batches(64, 150):
        optimizer.zero_grad()
        outputs = model(images)
        squares = (outputs[:, None] - outputs[None]).square().sum(2)
        apart = torch.sqrt(squares if sick else squares + 1e-6)
        same = labels[:, None] == labels[None]
        loss = apart[same].square().mean() + functional.relu(3 - apart[~same]).square().mean()
        loss.backward()
        session.step(loss, inputs=images, outputs=outputs, targets=labels)
        optimizer.step()
    places, test_places = predicted(model, data.inputs), predicted(model, data.test_inputs)
    if test_places.isnan().any():
        return float("nan")
    nearest = torch.cdist(test_places, places).argmin(1)
    return (data.targets[nearest] == data.test_targets).float().mean().item()
