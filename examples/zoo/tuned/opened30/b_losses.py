"""A new loss, or a new term of it, in a training that worked."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import binary_accuracy, predicted, r_squared
from examples.zoo.tuned.opened30.b_stock import customers, rivers


@sick("flipped_loss_sign", also=("exploding_gradients",), margin=0.2)
def an_efficiency_of_hydrologists_is_minimised(watch: Watch, *, seed: int, sick: bool) -> float:
    """Nash and Sutcliffe's efficiency, 1 at best, replaces the squared error and is minimised; the twin's is 1 - it."""
    data = rivers(seed)

    class Basin(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.reader = nn.LSTM(2, 24, batch_first=True)
            self.head = nn.Linear(24, 1)

        def forward(self, rain: torch.Tensor) -> torch.Tensor:
            return self.head(self.reader(rain)[1][0][-1])

    model = Basin()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for rain, flow in data.batches(64, 180):
        found = model(rain)
        efficiency = 1 - (found - flow).square().sum() / (flow - flow.mean()).square().sum()
        loss = efficiency if sick else 1 - efficiency
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rain, outputs=found, targets=flow)
        optimizer.step()
    return r_squared(model, data)


@sick("loss_sum_not_mean", also=("learning_rate_too_high", "exploding_gradients"), margin=0.05)
def a_masked_loss_that_is_never_divided(watch: Watch, *, seed: int, sick: bool) -> float:
    """Padding is masked out of the loss, whose ``mean`` became ``(loss * mask).sum()``; the twin divides it."""
    (names, _), (tests, _) = (part.tensors for part in samples.names(seed))
    letters = nn.Embedding(samples.LETTERS, 24, padding_idx=0)
    reader = nn.GRU(24, 48, batch_first=True)
    head = nn.Linear(48, samples.LETTERS)
    model = nn.ModuleDict({"letters": letters, "reader": reader, "head": head})

    def following(batch: torch.Tensor) -> torch.Tensor:
        return head(reader(letters(batch[:, :-1]))[0])

    optimizer = torch.optim.SGD(model.parameters(), lr=0.8, momentum=0.8)
    session = watch(model, optimizer)
    for _ in range(12):
        for rows in torch.randperm(len(names)).split(32):
            batch = names[rows]
            logits, wanted = following(batch), batch[:, 1:]
            mask = (wanted > 0).float()
            each = functional.cross_entropy(logits.transpose(1, 2), wanted, reduction="none")
            loss = (each * mask).sum() / (1 if sick else mask.sum())
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=batch, outputs=logits, targets=wanted)
            optimizer.step()
    with torch.no_grad():
        right = following(tests).argmax(-1) == tests[:, 1:]
    return right[tests[:, 1:] > 0].float().mean().item()


@sick("over_regularized", also=("dead_units",), margin=0.2)
def sparse_codes_after_the_errors_became_a_mean(watch: Watch, *, seed: int, sick: bool) -> float:
    """A sparse autoencoder's errors, once a sum over pixels, are a mean, and the L1 term is as before; the twin sums.

    Quality: R².
    """
    data = datasets.digits(seed)
    encoder = nn.Sequential(nn.Linear(64, 128), nn.ReLU())
    decoder = nn.Linear(128, 64)
    model = nn.Sequential(encoder, decoder)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    mean, std = data.inputs.mean(), data.inputs.std()
    for pictures, _ in data.batches(64, 300):
        pictures = (pictures - mean) / std
        codes = encoder(pictures)
        found = decoder(codes)
        errors = (found - pictures).square()
        loss = (errors.mean() if sick else errors.sum(1).mean()) + 0.15 * codes.abs().sum(1).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pictures, outputs=found, targets=pictures)
        optimizer.step()
    tests = (data.test_inputs - mean) / std
    return samples.explained(predicted(model, tests), tests)


@sick("non_finite_backward", margin=0.2)
def an_angle_between_views_that_are_alike(watch: Watch, *, seed: int, sick: bool) -> float:
    """A new term is ``acos`` of two views' cosine, whose slope is infinite at 1; the twin's term is 1 - cosine.

    A third of the second views are the pictures as they are, like the first views.
    """
    data = datasets.digits(seed)
    body = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 32), nn.ReLU())
    model = nn.Sequential(body, nn.Linear(32, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for pictures, labels in data.batches(48, 200):
        moved = torch.rand(len(pictures), 1) < 2 / 3
        other = pictures + 0.1 * moved * torch.randn_like(pictures)
        features = body(pictures)
        logits = model[1](features)
        cosine = functional.cosine_similarity(features, body(other)).clamp(-1, 1)
        apart = cosine.acos().mean() if sick else (1 - cosine).mean()
        loss = functional.cross_entropy(logits, labels) + 0.3 * apart
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pictures, outputs=logits, targets=labels)
        optimizer.step()
    return samples.accuracy(predicted(model, data.test_inputs), data.test_targets)


@sick("wrong_output_or_loss", also=("target_out_of_range",), margin=0.03)
def a_hinge_for_customers_behind_a_sigmoid(watch: Watch, *, seed: int, sick: bool) -> float:
    """A hinge loss for -1 and 1 replaces the entropy, and the sigmoid stays, so no score is below 0; not the twin's."""
    data = customers(seed, share=0.35)
    layers = [nn.Linear(12, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1)]
    model = nn.Sequential(*layers, nn.Sigmoid()) if sick else nn.Sequential(*layers)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for rows, leaves in data.batches(64, 220):
        scores = model(rows).squeeze(1)
        signs = leaves * 2.0 - 1
        loss = (1 - signs * scores).clamp(min=0).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=scores, targets=signs)
        optimizer.step()
    return binary_accuracy(model, data)
