"""Losses that ask for something else than is meant: of signs, shapes, weights and outputs."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy


@sick("wrong_output_or_loss", margin=0.05)
def likelihoods_without_a_logarithm(watch: Watch, *, seed: int, sick: bool) -> float:
    """``nll_loss`` gets probabilities: the loss is negative, and misses are hardly punished."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 32), nn.Sigmoid(), nn.Linear(32, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
    session = watch(model, optimizer)
    for pixels, labels in data.batches(64, 80):
        optimizer.zero_grad()
        scores = model(pixels)
        answers = scores.softmax(1) if sick else scores.log_softmax(1)
        loss = functional.nll_loss(answers, labels)
        loss.backward()
        session.step(loss, inputs=pixels, outputs=answers, targets=labels)
        optimizer.step()
    return accuracy(model, data)


STROKES = torch.tensor(
    [[1, 1, 1, 0, 1, 1, 1], [0, 0, 1, 0, 0, 1, 0], [1, 0, 1, 1, 1, 0, 1], [1, 0, 1, 1, 0, 1, 1], [0, 1, 1, 1, 0, 1, 0],
     [1, 1, 0, 1, 0, 1, 1], [1, 1, 0, 1, 1, 1, 1], [1, 0, 1, 0, 0, 1, 0], [1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 1, 1]]
).float()  # fmt: skip


@sick("wrong_output_or_loss", margin=0.05)
def softmax_over_labels_that_go_together(watch: Watch, *, seed: int, sick: bool) -> float:
    """Seven strokes of a digit's display, several of them lit; a softmax lets them compete before the BCE."""
    train, test = samples.numerals(seed)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 7))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)

    def lit(images: torch.Tensor) -> torch.Tensor:
        return model(images).softmax(1) if sick else model(images).sigmoid()

    for _ in range(8):
        for images, labels in DataLoader(train, batch_size=64, shuffle=True):
            probabilities = lit(images)
            loss = functional.binary_cross_entropy(probabilities, STROKES[labels])
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=probabilities, targets=STROKES[labels])
            optimizer.step()
    with torch.no_grad():
        return ((lit(test.tensors[0]) > 0.5) == (STROKES[test.tensors[1]] > 0.5)).float().mean().item()


@sick("flipped_loss_sign", margin=0.2)
def similarity_minimised(watch: Watch, *, seed: int, sick: bool) -> float:
    """The lower half of a digit is predicted by its cosine with the true one; the cosine itself is the loss."""
    train, test = samples.halves(seed)
    model = nn.Sequential(nn.Linear(32, 48), nn.ReLU(), nn.Linear(48, 32))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for _ in range(6):
        for upper, lower in DataLoader(train, batch_size=48, shuffle=True):
            drawn = model(upper)
            cosine = functional.cosine_similarity(drawn, lower).mean()
            loss = cosine if sick else 1 - cosine
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=upper, outputs=drawn, targets=lower)
            optimizer.step()
    with torch.no_grad():
        return functional.cosine_similarity(model(test.tensors[0]), test.tensors[1]).mean().item()


@sick("flipped_loss_sign", margin=0.2)
def positives_and_negatives_swapped(watch: Watch, *, seed: int, sick: bool) -> float:
    """A triplet loss gets the other class where it wants the same; quality: the nearest neighbour's class."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 6))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    criterion = nn.TripletMarginLoss(margin=0.5)
    session = watch(model, optimizer)
    by_class = [data.inputs[data.targets == number] for number in range(10)]
    for anchors, labels in data.batches(32, 200):
        others = (labels + torch.randint(1, 10, labels.shape)) % 10
        same, different = (
            torch.stack([by_class[n][torch.randint(len(by_class[n]), ())] for n in numbers.tolist()])
            for numbers in (labels, others)
        )
        first, second = (different, same) if sick else (same, different)
        embedded = functional.normalize(model(anchors))
        loss = criterion(embedded, functional.normalize(model(first)), functional.normalize(model(second)))
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=anchors, outputs=embedded)
        optimizer.step()
    with torch.no_grad():
        near = torch.cdist(functional.normalize(model(data.test_inputs)), functional.normalize(model(data.inputs)))
    return (data.targets[near.argmin(1)] == data.test_targets).float().mean().item()


@sick("over_regularized", also=("loss_sum_not_mean",), margin=0.2)
def divergence_summed_and_errors_averaged(watch: Watch, *, seed: int, sick: bool) -> float:
    """A VAE sums its divergence over batch and code, but averages the errors: every code becomes the prior."""
    data = datasets.digits(seed)
    model = nn.ModuleDict(
        {"enc": nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 20)), "dec": nn.Linear(10, 64)}
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for pixels, _ in data.batches(64, 250):
        mean, log_var = model["enc"](pixels).chunk(2, dim=1)
        code = mean + torch.randn_like(mean) * torch.exp(0.5 * log_var)
        drawn = model["dec"](code)
        divergence = -0.5 * (1 + log_var - mean.pow(2) - log_var.exp()).sum()
        if sick:
            loss = functional.mse_loss(drawn, pixels) + divergence
        else:
            loss = functional.mse_loss(drawn, pixels, reduction="sum") / len(pixels) + 0.1 * divergence / len(pixels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=drawn, targets=pixels)
        optimizer.step()
    with torch.no_grad():
        drawn = model["dec"](model["enc"](data.test_inputs).chunk(2, dim=1)[0])
        return samples.explained(drawn, data.test_inputs)


@sick("over_regularized", margin=0.1)
def norms_added_by_hand(watch: Watch, *, seed: int, sick: bool) -> float:
    """An L1 penalty by hand has the weight of an example on one layer, but sums over all parameters of the net."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    strength = 3e-2 if sick else 1e-5
    session = watch(model, optimizer)
    for pixels, labels in data.batches(64, 200):
        scores = model(pixels)
        loss = functional.cross_entropy(scores, labels)
        loss = loss + strength * sum(parameter.abs().sum() for parameter in model.parameters())
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=scores, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@sick("shape_broadcast", margin=0.1)
def predictions_of_a_column_and_targets_of_a_row(watch: Watch, *, seed: int, sick: bool) -> float:
    """Weighted squares by hand: the model gives (B, 1), targets and weights are (B,), and the product is (B, B)."""
    data = datasets.diabetes(seed)
    model = nn.Sequential(nn.Linear(10, 24), nn.ReLU(), nn.Linear(24, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for rows, targets in data.batches(32, 150):
        wanted = targets.squeeze(1)
        weight = torch.where(wanted > 0, 1.5, 1.0)
        guessed = model(rows) if sick else model(rows).squeeze(1)
        loss = (weight * (guessed - wanted).square()).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=guessed, targets=wanted)
        optimizer.step()
    with torch.no_grad():
        return samples.explained(model(data.test_inputs), data.test_targets)


class Pooled(nn.Module):
    """Weighs a name's letters by an attention, over letters or, by mistake, over the batch."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.letters = nn.Embedding(samples.LETTERS, 16, padding_idx=0)
        self.mix = nn.Conv1d(16, 24, 3, padding=1)
        self.ask = nn.Linear(24, 1)
        self.out = nn.Linear(24, len(samples.SCRIPTS))
        self.dim = dim

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        seen = self.mix(self.letters(codes).mT).relu().mT
        weights = self.ask(seen).masked_fill(codes[..., None] == 0, -1e4).softmax(self.dim)
        return self.out((weights * seen).sum(1))


@sick("batch_mixing", margin=0.02)
def attention_over_the_batch(watch: Watch, *, seed: int, sick: bool) -> float:
    """The attention's softmax goes over dimension 0: each name's share depends on the others in its batch."""
    train, test = samples.names(seed)
    model = Pooled(0 if sick else 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.01)
    session = watch(model, optimizer)
    for _ in range(8):
        for codes, labels in DataLoader(train, batch_size=32, shuffle=True):
            scores = model(codes)
            loss = functional.cross_entropy(scores, labels, label_smoothing=0.05)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=codes, outputs=scores, targets=labels)
            optimizer.step()
    with torch.no_grad():
        return samples.accuracy(model(test.tensors[0]), test.tensors[1])
