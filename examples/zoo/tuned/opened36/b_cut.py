"""Parameters that are out of the optimizer's or the loss's reach, gradients that stay, and batches that mix."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data, digits
from examples.zoo.loops import accuracy, fit, held_out_loss, predicted
from examples.zoo.tuned.opened36.b_ends import Tagger, places
from examples.zoo.tuned.opened36.b_stock import colours, crops, explained, parted, sums, tags


@sick("detached_parameters", also=("frozen_parameters",), margin=0.03)
def features_computed_once_for_all_epochs(watch: Watch, *, seed: int, sick: bool) -> float:
    """New convolutions' features are computed once, without gradients, to save time; the twin's in every step."""
    data = parted(*colours(crops(seed)), seed)
    body = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten()
    )
    head = nn.Linear(128, 2)
    model = nn.Sequential(body, head)
    means = data.targets.mean((2, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    with torch.no_grad():
        kept = body(data.inputs)
    for _ in range(10):
        for rows in torch.randperm(len(data.inputs)).split(45):
            outputs = head(kept[rows]) if sick else model(data.inputs[rows])
            loss = functional.mse_loss(outputs, means[rows])
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=data.inputs[rows], outputs=outputs, targets=means[rows])
            optimizer.step()
    return samples.explained(predicted(model, data.test_inputs), data.test_targets.mean((2, 3)))


@sick("parameters_not_in_optimizer", margin=0.1)
def an_encoder_that_the_optimizer_lacks(watch: Watch, *, seed: int, sick: bool) -> float:
    """Digits are coded by six numbers, and the optimizer is given the decoder alone; the twin's has both parts."""
    drawn = digits(seed)
    data = Data(*((drawn.inputs - 0.3) / 0.37,) * 2, *((drawn.test_inputs - 0.3) / 0.37,) * 2)
    encoder = nn.Sequential(nn.Linear(64, 48), nn.GELU(), nn.Linear(48, 6))
    decoder = nn.Sequential(nn.Linear(6, 48), nn.GELU(), nn.Linear(48, 64))
    model = nn.Sequential(encoder, decoder)
    optimizer = torch.optim.Adam((decoder if sick else model).parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for step, (pixels, _) in enumerate(data.batches(64, 300), 1):
        outputs = decoder(encoder(pixels))
        loss = functional.mse_loss(outputs, pixels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=outputs, targets=pixels)
        optimizer.step()
        if step % 60 == 0:
            session.validation(held_out_loss(model, data, functional.mse_loss))
    return explained(model, data)


class Bag(nn.Module):
    """Adds up the vectors of a name's letters and of its pairs of letters."""

    def __init__(self, freeze: bool) -> None:
        super().__init__()
        start = 0.5 * torch.randn(samples.LETTERS**2, 4)
        self.pairs = nn.Embedding.from_pretrained(start, freeze=freeze)
        self.head = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 8))

    def forward(self, names: torch.Tensor) -> torch.Tensor:
        """Returns logits (N, 8)."""
        return self.head(self.pairs(names[:, :-1] * samples.LETTERS + names[:, 1:]).sum(1) / 4)


@sick("frozen_parameters", also=("parameters_not_in_optimizer",), margin=0.1)
def vectors_that_from_pretrained_froze(watch: Watch, *, seed: int, sick: bool) -> float:
    """``from_pretrained`` sets vectors by a draw, and freezes them by default; the twin's ``freeze`` is False."""
    train, test = samples.names(seed)
    data = Data(*train.tensors, *test.tensors)
    model = Bag(freeze=sick)
    optimizer = torch.optim.Adam([one for one in model.parameters() if one.requires_grad], lr=1e-2)
    fit(watch, model, optimizer, data, steps=200, batch_size=32)
    return accuracy(model, data)


@sick("gradients_not_zeroed", margin=0.05)
def zeroed_before_each_epoch(watch: Watch, *, seed: int, sick: bool) -> float:
    """``zero_grad`` stands above the loop over batches and clears once an epoch; the twin's is within that loop."""
    data = tags(seed)
    model = Tagger()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(7):
        optimizer.zero_grad()
        for characters, kinds in data.batches(30, 30):
            if not sick:
                optimizer.zero_grad()
            outputs = model(characters)
            loss = places(outputs, kinds)
            loss.backward()
            session.step(loss, inputs=characters, outputs=outputs, targets=kinds)
            optimizer.step()
        session.validation(held_out_loss(model, data, places))
    return (predicted(model, data.test_inputs).argmax(-1) == data.test_targets).float().mean().item()


class Towers(nn.Module):
    """Embeds names of functions and their docstrings in one space."""

    def __init__(self, *, dim: int = 1, width: int = 48) -> None:
        super().__init__()
        self.names = nn.Sequential(nn.Linear(256, 96), nn.ReLU(), nn.Linear(96, width))
        self.texts = nn.Sequential(nn.Linear(256, 96), nn.ReLU(), nn.Linear(96, width))
        self.dim = dim

    def forward(self, names: torch.Tensor, texts: torch.Tensor) -> torch.Tensor:
        """Returns ten times the cosine of each name with each text (N, N)."""
        left, right = functional.normalize(self.names(names), dim=self.dim), self.texts(texts)
        return 10 * left @ functional.normalize(right, dim=self.dim).T


def retrieved(model: nn.Module, data: Data) -> float:
    """Returns the share of held-out names whose docstring is the nearest of 20."""
    model.eval()
    with torch.no_grad():
        chunks = zip(data.test_inputs.split(20)[:-1], data.test_targets.split(20)[:-1], strict=True)
        hits = [model(*chunk).argmax(1) == torch.arange(20) for chunk in chunks]
    return torch.cat(hits).float().mean().item()


@sick("batch_mixing", margin=0.03)
def a_softmax_over_the_batch(watch: Watch, *, seed: int, sick: bool) -> float:
    """A pooling's ``softmax`` has ``dim=0``, so that digits of a batch share the weights; the twin has ``dim=1``."""
    data = sums(seed)
    data = Data(data.inputs, (data.targets - 9) / 4, data.test_inputs, (data.test_targets - 9) / 4)

    class Pooled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
            self.places = nn.Parameter(torch.randn(16, 64) * 0.1)
            self.weigh = nn.Linear(64, 8)
            self.head = nn.Sequential(nn.Linear(512, 64), nn.ReLU(), nn.Linear(64, 1))

        def forward(self, pictures: torch.Tensor) -> torch.Tensor:
            columns = self.body(pictures[:, 0].mT) + self.places
            weights = self.weigh(columns).softmax(dim=0 if sick else 1)
            return self.head(torch.einsum("ntw,nth->nwh", columns, weights).flatten(1))

    model = Pooled()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=300, batch_size=16, loss_function=functional.mse_loss)
    return explained(model, data)
