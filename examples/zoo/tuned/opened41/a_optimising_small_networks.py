"""Rates, depths and weights of small networks at their start."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import CHARACTERS
from examples.zoo.loops import predicted


class CharacterModel(nn.Module):
    """Predicts each next character from those before it."""

    def __init__(self, width: int = 48) -> None:
        super().__init__()
        self.embedding = nn.Embedding(CHARACTERS, 24)
        self.recurrent = nn.GRU(24, width, batch_first=True)
        self.head = nn.Linear(width, CHARACTERS)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        """Returns logits for each place."""
        return self.head(self.recurrent(self.embedding(codes))[0])


@sick("learning_rate_too_high", margin=0.05)
def adam_with_a_rate_meant_for_sgd(watch: Watch, *, seed: int, sick: bool) -> float:
    """A character model is trained by Adam at 0.5, a rate that was meant for SGD; the twin takes 0.01."""
    data = datasets.text(seed, length=14)
    model = CharacterModel()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.5 if sick else 0.01)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.2, total_iters=200)
    session = watch(model, optimizer)
    for inputs, targets in data.batches(32, 200):
        optimizer.zero_grad()
        logits = model(inputs)
        loss = functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
        loss.backward()
        session.step(loss, inputs=inputs, outputs=logits, targets=targets)
        optimizer.step()
        scheduler.step()
    return (predicted(model, data.test_inputs).argmax(-1) == data.test_targets).float().mean().item()


@sick("vanishing_gradients", also=("saturated_units", "poor_initialization", "learning_rate_too_low"), margin=0.1)
def lower_half_of_digits_through_ten_sigmoids(watch: Watch, *, seed: int, sick: bool) -> float:
    """Ten sigmoid layers predict the lower half of digits; the twin has GELUs and residual connections."""
    train, test = samples.standardised(samples.halves(seed), 0)

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(48, 48)

        def forward(self, hidden: torch.Tensor) -> torch.Tensor:
            if sick:
                return torch.sigmoid(self.linear(hidden))
            return hidden + 0.3 * functional.gelu(self.linear(hidden))

    model = nn.Sequential(nn.Linear(32, 48), *(Block() for _ in range(10)), nn.Linear(48, 32))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    session = watch(model, optimizer)
    upper, lower = train.tensors
    for _ in range(10):
        for rows in torch.randperm(len(upper)).split(48):
            optimizer.zero_grad()
            outputs = model(upper[rows])
            loss = functional.mse_loss(outputs, lower[rows])
            loss.backward()
            session.step(loss, inputs=upper[rows], outputs=outputs, targets=lower[rows])
            optimizer.step()
    return samples.explained(predicted(model, test.tensors[0]), test.tensors[1])


@sick("dead_units", also=("poor_initialization",), margin=0.1)
def convolutions_with_biases_of_minus_four(watch: Watch, *, seed: int, sick: bool) -> float:
    """An ``init_weights`` fills the biases of all convolutions with -4, so that ReLUs stay shut; the twin with 0."""
    train, test = samples.numerals(seed)

    def init_weights(module: nn.Module) -> None:
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
            nn.init.constant_(module.bias, -4.0 if sick else 0.0)

    model = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(12, 24, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(96, 10),
    )
    model.apply(init_weights)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    images, labels = train.tensors
    for _ in range(7):
        for rows in torch.randperm(len(images)).split(32):
            logits = model(images[rows])
            loss = functional.cross_entropy(logits, labels[rows])
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images[rows], outputs=logits, targets=labels[rows])
            optimizer.step()
    return samples.accuracy(predicted(model, test.tensors[0]), test.tensors[1])


@sick("poor_initialization", also=("exploding_gradients", "saturated_units"), margin=0.05)
def transformer_of_rows_with_unit_normal_weights(watch: Watch, *, seed: int, sick: bool) -> float:
    """All matrices of a transformer that reads a digit's rows are drawn from N(0, 1); the twin's by Xavier's rule."""
    train, test = samples.numerals(seed)

    class Classifier(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Linear(8, 32)
            self.places = nn.Parameter(0.1 * torch.randn(8, 32))
            layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
            self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
            self.head = nn.Linear(32, 10)

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return self.head(self.encoder(self.embedding(images.squeeze(1)) + self.places).mean(1))

    model = Classifier()
    for module in model.modules():
        for parameter in module.parameters(recurse=False):
            if parameter.dim() > 1 and parameter is not model.places:
                (nn.init.normal_ if sick else nn.init.xavier_uniform_)(parameter)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    images, labels = train.tensors
    for _ in range(8):
        for rows in torch.randperm(len(images)).split(48):
            optimizer.zero_grad()
            logits = model(images[rows])
            loss = functional.cross_entropy(logits, labels[rows])
            loss.backward()
            session.step(loss, inputs=images[rows], outputs=logits, targets=labels[rows])
            optimizer.step()
    return samples.accuracy(predicted(model, test.tensors[0]), test.tensors[1])
