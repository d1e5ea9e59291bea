"""Losses, last layers and shapes: what is compared with what, and what is minimised."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data, breast_cancer, diabetes, digits
from examples.zoo.loops import accuracy, binary_accuracy, fit, predicted, r_squared
from examples.zoo.tuned.opened4.material import (
    alcohol,
    cells,
    convnet,
    explained,
    f1,
    mlp,
    scaled,
    snippets,
    tiles,
)  # fmt: skip


@sick("target_out_of_range")
def sigmoid_for_a_score_in_the_hundreds(watch: Watch, *, seed, sick):
    """The progression of the disease is from 25 to 346, the output from 0 to 1."""
    data = diabetes(seed, raw_targets=True)
    top = 1.0 if sick else 350.0
    data = Data(data.inputs, data.targets / top, data.test_inputs, data.test_targets / top)
    model = nn.Sequential(*mlp(10, 32, 1), nn.Sigmoid())
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=150, batch_size=32, loss_function=functional.mse_loss)
    return r_squared(model, data) + 0.4


@sick("target_out_of_range")
def relu_after_a_regression_of_deviations(watch: Watch, *, seed, sick):
    """The target is standardised, so half of it is negative, and the last layer ends in a ReLU."""
    data = scaled(cells(seed), targets=True)
    model = mlp(20, 32, 32, 1)
    if sick:
        model.append(nn.ReLU())
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=200, batch_size=32, loss_function=functional.mse_loss, validate_every=50)
    return r_squared(model, data)


@sick("target_out_of_range")
def tanh_decoder_for_bytes(watch: Watch, *, seed, sick):
    """A decoder ends in tanh as in the paper, and the tiles are from 0 to 255."""
    pictures = tiles(seed)
    pixels = pictures * 2 - 1
    goal = pictures * 255 if sick else pixels
    data = Data(pixels[:1200], goal[:1200], pixels[1200:], goal[1200:])
    model = nn.Sequential(*mlp(64, 32, 12, 32, 64, activation=nn.ELU), nn.Tanh())
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    fit(watch, model, optimizer, data, steps=200, loss_function=functional.mse_loss)
    return explained(predicted(model, data.test_inputs), data.test_targets)


@sick("wrong_output_or_loss")
def likelihood_of_raw_scores(watch: Watch, *, seed, sick):
    """``nll_loss`` expects logarithms of probabilities; the model's last line without them is from another branch."""
    data = digits(seed, images=True)
    model = convnet(12)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for images, labels in data.batches(48, 160):
        scores = model(images)
        loss = functional.nll_loss(scores if sick else scores.log_softmax(-1), labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=images, outputs=scores, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@sick("wrong_output_or_loss")
def number_of_the_class_as_a_regression(watch: Watch, *, seed, sick):
    """Ten classes, one output, squared errors from the class's number."""
    data = digits(seed)
    model = mlp(64, 32, 1 if sick else 10)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)

    def criterion(outputs, labels):
        if sick:
            return functional.mse_loss(outputs[:, 0], labels.float())
        return functional.cross_entropy(outputs, labels)

    fit(watch, model, optimizer, data, steps=180, loss_function=criterion)
    outputs = predicted(model, data.test_inputs)
    guessed = outputs[:, 0].round() if sick else outputs.argmax(-1)
    return (guessed == data.test_targets).float().mean().item()


@sick("wrong_output_or_loss")
def several_labels_in_one_softmax(watch: Watch, *, seed, sick):
    """Words that may stand together, in a cross entropy that lets them compete."""
    data = snippets(seed)

    class Finder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(98, 24)
            self.filters = nn.Conv1d(24, 64, 5)
            self.head = nn.Linear(64, 6)

        def forward(self, codes: torch.Tensor) -> torch.Tensor:
            return self.head(self.filters(self.embedding(codes).mT).relu().amax(-1))

    model = Finder()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    criterion = functional.cross_entropy if sick else functional.binary_cross_entropy_with_logits
    fit(watch, model, optimizer, data, steps=150, batch_size=32, loss_function=criterion)
    outputs = predicted(model, data.test_inputs)
    return f1(outputs.softmax(-1) - 0.5 if sick else outputs, data.test_targets)


@sick("shape_broadcast")
def alcohol_against_a_flat_column(watch: Watch, *, seed, sick):
    """(B, 1) less (B,) is (B, B): every output meets every target."""
    data = scaled(alcohol(seed), targets=True)
    model = mlp(12, 24, 1, activation=nn.Tanh)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for rows, strength in data.batches(32, 200):
        outputs = model(rows)
        goal = strength[:, 0] if sick else strength
        loss = functional.mse_loss(outputs, goal)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=outputs, targets=goal)
        optimizer.step()
    return r_squared(model, data) + 0.2


@sick("shape_broadcast")
def focal_loss_of_our_own(watch: Watch, *, seed, sick):
    """A loss written by hand takes whatever broadcasts: logits (B, 1), labels (B,)."""
    data = breast_cancer(seed)

    def focal(logits, labels):
        p = logits.sigmoid()
        positive = labels * (1 - p) ** 2 * functional.logsigmoid(logits)
        negative = (1 - labels) * p**2 * functional.logsigmoid(-logits)
        return -(positive + negative).mean()

    model = mlp(30, 24, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for rows, labels in data.batches(32, 150):
        logits = model(rows)
        labels = labels.float() if sick else labels.float()[:, None]
        loss = focal(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=logits, targets=labels)
        optimizer.step()
    return binary_accuracy(model, data)
