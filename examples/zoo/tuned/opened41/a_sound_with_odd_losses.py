"""Sound trainings whose losses, gradients or targets are unusual."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.datasets import CHARACTERS
from examples.zoo.loops import predicted


@healthy(at_least=0.3)
def a_variational_autoencoder_of_digits(watch: Watch, *, seed: int) -> float:
    """The divergence begins near 0 and rises while the reconstruction gets better."""
    train, test = samples.numerals(seed)
    images, held_out = train.tensors[0].flatten(1), test.tensors[0].flatten(1)

    class Autoencoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = nn.Sequential(nn.Linear(64, 48), nn.ELU(), nn.Linear(48, 16))
            self.decoder = nn.Sequential(nn.Linear(8, 48), nn.ELU(), nn.Linear(48, 64))

        def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
            mean, log_variance = self.encoder(images).chunk(2, 1)
            noise = torch.randn_like(mean) if self.training else 0.0
            return self.decoder(mean + noise * (0.5 * log_variance).exp()), mean, log_variance

    model = Autoencoder()
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for _ in range(12):
        for rows in torch.randperm(len(images)).split(64):
            outputs, mean, log_variance = model(images[rows])
            divergence = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum(1).mean()
            loss = (outputs - images[rows]).square().sum(1).mean() + divergence
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images[rows], outputs=outputs, targets=images[rows])
            optimizer.step()
    model.eval()
    with torch.no_grad():
        return samples.explained(model(held_out)[0], held_out)


@healthy(at_least=0.8)
def a_triplet_margin_that_most_triplets_keep(watch: Watch, *, seed: int) -> float:
    """Triplets of digits are soon further apart than the margin, and most losses and gradients are 0."""
    train, test = samples.numerals(seed)
    images, labels = train.tensors[0].flatten(1), train.tensors[1]
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 16))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    members = [torch.where(labels == number)[0] for number in range(10)]
    for _ in range(200):
        anchors = torch.randint(len(images), (64,))
        numbers = labels[anchors].tolist()
        alike = torch.stack([members[number][torch.randint(len(members[number]), ())] for number in numbers])
        different = [(number + int(torch.randint(1, 10, ()))) % 10 for number in numbers]
        others = torch.stack([members[number][torch.randint(len(members[number]), ())] for number in different])
        codes = model(images[torch.cat([anchors, alike, others])])
        loss = functional.triplet_margin_loss(*codes.split(64), margin=1.0)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=images[anchors], outputs=codes)
        optimizer.step()
    known, found = predicted(model, images), predicted(model, test.tensors[0].flatten(1))
    nearest = torch.cdist(found, known).argmin(1)
    return (labels[nearest] == test.tensors[1]).float().mean().item()


@healthy(at_least=0.4)
def characters_with_embeddings_that_get_no_gradient(watch: Watch, *, seed: int) -> float:
    """Sparse embeddings of rare characters get no gradient in most steps, and the head has the embedding's weights."""
    data = datasets.text(seed, length=16)

    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(CHARACTERS, 48)
            self.recurrent = nn.GRU(48, 48, batch_first=True)
            self.bias = nn.Parameter(torch.zeros(CHARACTERS))
            nn.init.normal_(self.embedding.weight, std=0.15)

        def forward(self, codes: torch.Tensor) -> torch.Tensor:
            hidden, _ = self.recurrent(self.embedding(codes))
            return hidden @ self.embedding.weight.T + self.bias

    model = Tied()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    session = watch(model, optimizer)
    for codes, following in data.batches(32, 200):
        optimizer.zero_grad()
        logits = model(codes)
        loss = functional.cross_entropy(logits.flatten(0, 1), following.flatten())
        loss.backward()
        session.step(loss, inputs=codes, outputs=logits, targets=following)
        optimizer.step()
    return (predicted(model, data.test_inputs).argmax(-1) == data.test_targets).float().mean().item()


@healthy(at_least=0.5)
def pinball_losses_of_three_quantiles(watch: Watch, *, seed: int) -> float:
    """A network predicts three quantiles of proline, whose losses stay above 0; the median's R² is the quality."""
    train, test = samples.standardised(samples.proline(seed), 0, 1)
    rows, targets = train.tensors
    shares = torch.tensor([0.1, 0.5, 0.9])
    model = nn.Sequential(nn.Linear(12, 16), nn.Tanh(), nn.Linear(16, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for _ in range(25):
        for batch in torch.randperm(len(rows)).split(16):
            outputs = model(rows[batch])
            error = targets[batch] - outputs
            loss = torch.maximum(shares * error, (shares - 1) * error).mean()
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=rows[batch], outputs=outputs, targets=targets[batch])
            optimizer.step()
    return samples.explained(predicted(model, test.tensors[0])[:, 1:2], test.tensors[1])


@healthy(at_least=0.85)
def mixed_pictures_and_mixed_labels(watch: Watch, *, seed: int) -> float:
    """Mixup blends pictures and their labels, and the loss stays high."""
    train, test = samples.numerals(seed)
    images, labels = train.tensors
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(256, 10)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for _ in range(8):
        for rows in torch.randperm(len(images)).split(64):
            share = torch.distributions.Beta(0.8, 0.8).sample()
            partners = rows[torch.randperm(len(rows))]
            blended = share * images[rows] + (1 - share) * images[partners]
            one_hot = functional.one_hot(labels, 10).float()
            wanted = share * one_hot[rows] + (1 - share) * one_hot[partners]
            logits = model(blended)
            loss = functional.cross_entropy(logits, wanted)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=blended, outputs=logits, targets=wanted)
            optimizer.step()
    return samples.accuracy(predicted(model, test.tensors[0]), test.tensors[1])


@healthy(at_least=0.5)
def accumulated_and_clipped_sequences(watch: Watch, *, seed: int) -> float:
    """A network of rows accumulates four averaged batches, clips at 1, and warms up."""
    train, test = samples.numerals(seed)
    images, labels = train.tensors[0].squeeze(1), train.tensors[1]

    class Reader(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.recurrent = nn.LSTM(8, 48, batch_first=True)
            self.head = nn.Linear(48, 10)

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            return self.head(self.recurrent(rows)[0][:, -1])

    model = Reader()
    optimizer = torch.optim.Adam(model.parameters(), lr=8e-3)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.1, total_iters=20)
    session = watch(model, optimizer)
    for _ in range(8):
        batches = torch.randperm(len(images)).split(16)
        for index, rows in enumerate(batches[: len(batches) // 4 * 4], 1):
            logits = model(images[rows])
            loss = functional.cross_entropy(logits, labels[rows])
            (loss / 4).backward()
            if index % 4 == 0:
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                session.step(loss, inputs=images[rows], outputs=logits, targets=labels[rows])
                optimizer.step()
                optimizer.zero_grad()
                scheduler.step()
    return samples.accuracy(predicted(model, test.tensors[0].squeeze(1)), test.tensors[1])
