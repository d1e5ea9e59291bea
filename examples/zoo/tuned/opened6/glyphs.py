"""A small project on handwritten digits: what goes wrong in its loaders, transforms and trainer."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo.cases import Watch, sick
from examples.zoo.tuned.opened6.glyph_project import Glyphs, Reader, Trainer, loader, scaled


@sick("learning_rate_too_high")
def adam_as_if_it_were_sgd(watch: Watch, *, seed: int, sick: bool) -> float:
    """The rate of an SGD recipe is kept when the optimizer is changed to Adam."""
    model = Reader()
    trainer = Trainer(watch, model, torch.optim.Adam(model.parameters(), lr=0.3 if sick else 3e-3))
    for _ in range(4):
        trainer.epoch(loader(seed))
    return trainer.accuracy(loader(seed, train=False))


@sick("schedule_collapsed")
def decayed_by_the_batch(watch: Watch, *, seed: int, sick: bool) -> float:
    """A decay meant for each epoch happens after each batch."""
    model = Reader()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    decay = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.7)
    trainer = Trainer(watch, model, optimizer, after_step=decay.step if sick else None)
    for _ in range(4):
        trainer.epoch(loader(seed))
        if not sick:
            decay.step()
    return trainer.accuracy(loader(seed, train=False))


@sick("inputs_constant")
def divided_as_integers(watch: Watch, *, seed: int, sick: bool) -> float:
    """Pixels from 0 to 16 are taken for bytes, and divided by 255 as whole numbers."""

    def as_bytes(image: torch.Tensor) -> torch.Tensor:
        return (image.to(torch.uint8) // 255).float()

    way = as_bytes if sick else scaled
    model = Reader()
    trainer = Trainer(watch, model, torch.optim.Adam(model.parameters(), lr=3e-3))
    for _ in range(4):
        trainer.epoch(loader(seed, transform=way))
    return trainer.accuracy(loader(seed, train=False, transform=way))


@sick("non_finite_inputs")
def pixels_that_never_vary(watch: Watch, *, seed: int, sick: bool) -> float:
    """Each pixel is divided by its own deviation, which is zero in the corners."""
    everything = Glyphs(seed, train=True, transform=lambda image: image).images
    deviation, mean = torch.std_mean(everything, 0)
    if not sick:
        deviation = deviation.clamp_min(1.0)

    def standardised(image: torch.Tensor) -> torch.Tensor:
        return (image - mean) / deviation

    model = Reader()
    trainer = Trainer(watch, model, torch.optim.Adam(model.parameters(), lr=3e-3))
    for _ in range(4):
        trainer.epoch(loader(seed, transform=standardised))
    return trainer.accuracy(loader(seed, train=False, transform=standardised))


@sick("wrong_output_or_loss")
def likelihood_of_raw_scores(watch: Watch, *, seed: int, sick: bool) -> float:
    """``NLLLoss`` receives scores without a log-softmax before it."""
    model = Reader()
    criterion = nn.NLLLoss() if sick else nn.CrossEntropyLoss()
    trainer = Trainer(watch, model, torch.optim.Adam(model.parameters(), lr=3e-3), criterion=criterion)
    for _ in range(4):
        trainer.epoch(loader(seed))
    return trainer.accuracy(loader(seed, train=False))


@sick("unshuffled_data")
def sorted_on_disk(watch: Watch, *, seed: int, sick: bool) -> float:
    """Images lie in a folder for each class, and are read folder by folder."""
    train = Glyphs(seed, train=True)
    by_class = sorted(range(len(train)), key=train.labels.__getitem__)
    model = Reader()
    trainer = Trainer(watch, model, torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9))
    for _ in range(4):
        order = by_class if sick else torch.randperm(len(train)).tolist()
        trainer.epoch(torch.utils.data.DataLoader(train, batch_size=48, sampler=order))
    return trainer.accuracy(loader(seed, train=False))


@sick("duplicated_data", also=("overfitting",))
def the_first_batch_each_time(watch: Watch, *, seed: int, sick: bool) -> float:
    """``next(iter(loader))`` of a loader that does not shuffle."""
    source = loader(seed, batch=24, shuffle=not sick)
    model = Reader()
    trainer = Trainer(watch, model, torch.optim.Adam(model.parameters(), lr=3e-3))
    for _ in range(90):
        trainer.batch(*next(iter(source)))
    return trainer.accuracy(loader(seed, train=False))


@sick("wrong_mode")
def validated_with_dropout(watch: Watch, *, seed: int, sick: bool) -> float:
    """The validation that picks the model forgets ``model.eval()``; its last result is the quality."""
    model = Reader(drop=0.5)
    trainer = Trainer(watch, model, torch.optim.Adam(model.parameters(), lr=2e-3))
    found = 0.0
    for _ in range(5):
        trainer.epoch(loader(seed))
        with trainer.session.validating():
            found = trainer.accuracy(loader(seed, train=False, batch=540), switch=not sick)
    return found


@sick("parameters_not_in_optimizer")
def a_classifier_of_its_own(watch: Watch, *, seed: int, sick: bool) -> float:
    """The classifier is replaced by one for these classes when the optimizer exists already."""
    model = Reader()
    model.classifier = nn.Linear(64, 1000)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    model.classifier = nn.Linear(64, 10)
    nn.init.zeros_(model.classifier.bias)
    if not sick:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    trainer = Trainer(watch, model, optimizer)
    for _ in range(4):
        trainer.epoch(loader(seed))
    return trainer.accuracy(loader(seed, train=False))


class _Frugal(nn.Module):
    """Features under ``no_grad``, to save memory."""

    def __init__(self, *, frugal: bool) -> None:
        super().__init__()
        self.frugal = frugal
        self.stem = nn.Sequential(nn.Conv2d(1, 6, 3, stride=2), nn.Tanh(), nn.Conv2d(6, 6, 2), nn.Tanh())
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(24, 10))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.frugal):
            features = self.stem(images)
        return self.head(features)


@sick("detached_parameters", also=("frozen_parameters",))
def features_without_a_graph(watch: Watch, *, seed: int, sick: bool) -> float:
    """A network that nobody has trained computes its features under ``no_grad``."""
    model = _Frugal(frugal=sick)
    trainer = Trainer(watch, model, torch.optim.Adam(model.parameters(), lr=5e-3))
    for _ in range(4):
        trainer.epoch(loader(seed))
    return trainer.accuracy(loader(seed, train=False))


@sick("frozen_parameters")
def frozen_as_if_pretrained(watch: Watch, *, seed: int, sick: bool) -> float:
    """The recipe freezes all but the classifier, but the weights were never loaded."""
    model = nn.Sequential(nn.Conv2d(1, 6, 3, stride=2), nn.Tanh(), nn.Conv2d(6, 6, 2), nn.Tanh(), nn.Flatten())
    model.requires_grad_(not sick)
    model.add_module("classifier", nn.Linear(24, 10))
    wanted = [weight for weight in model.parameters() if weight.requires_grad]
    trainer = Trainer(watch, model, torch.optim.Adam(wanted, lr=5e-3))
    for _ in range(4):
        trainer.epoch(loader(seed))
    return trainer.accuracy(loader(seed, train=False))


@sick("wrong_output_or_loss")
def the_number_as_a_quantity(watch: Watch, *, seed: int, sick: bool) -> float:
    """The digit is regressed as if three lay between two and four in looks as well."""
    data = [Glyphs(seed, train=train) for train in (True, False)]
    (pixels, numbers), (test_pixels, test_numbers) = (
        (scaled(part.images).flatten(1), torch.tensor(part.labels)) for part in data
    )
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 1 if sick else 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for _ in range(150):
        picked = torch.randint(len(pixels), (64,))
        guess = model(pixels[picked])
        wanted = numbers[picked]
        if sick:
            loss = functional.mse_loss(guess.squeeze(1), wanted.float())
        else:
            loss = functional.cross_entropy(guess, wanted)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels[picked], outputs=guess, targets=wanted)
        optimizer.step()
    with torch.no_grad():
        guess = model(test_pixels)
    answer = guess.squeeze(1).round() if sick else guess.argmax(1)
    return float((answer == test_numbers).float().mean())
