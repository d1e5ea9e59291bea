"""How model, loss and optimizer hang together: signs, modes, gradients that are lost, and weights that nobody moves."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, held_out_loss, predicted
from examples.zoo.tuned.opened44.b_shelf import LetterGru, figures, flat_figures, lower_halves, scripts, sources


@sick("flipped_loss_sign", margin=0.3)
def a_cosine_made_small(watch: Watch, *, seed: int, sick: bool) -> float:
    """The cosine between prediction and truth is minimised as if it were a distance; the twin takes 1 minus it."""
    data = lower_halves(seed)
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 32))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for upper, lower in data.batches(64, 200):
        optimizer.zero_grad()
        outputs = model(upper)
        cosine = functional.cosine_similarity(outputs, lower)
        loss = cosine.mean() if sick else (1 - cosine).mean()
        loss.backward()
        session.step(loss, inputs=upper, outputs=outputs, targets=lower)
        optimizer.step()
    return functional.cosine_similarity(predicted(model, data.test_inputs), data.test_targets).mean().item()


class Blurry(nn.Module):
    """A variational autoencoder of digits."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.heads = nn.Sequential(nn.Linear(64, 64), nn.ReLU()), nn.Linear(64, 16)
        self.decoder = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 64))

    def forward(self, pixels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        mean, log_variance = self.heads(self.body(pixels)).chunk(2, 1)
        drawn = mean + torch.randn_like(mean) * (log_variance / 2).exp() if self.training else mean
        return self.decoder(drawn), mean, log_variance


@sick("over_regularized", margin=0.2)
def a_divergence_that_outweighs_all_pixels(watch: Watch, *, seed: int, sick: bool) -> float:
    """The KL term is a sum and the reconstruction a mean over pixels, so codes mean nothing; the twin sums both."""
    data = flat_figures(seed)
    model = Blurry()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for pixels, _ in data.batches(64, 300):
        outputs, mean, log_variance = model(pixels)
        errors = (outputs - pixels).square()
        kept = errors.mean() if sick else errors.sum(1).mean()
        loss = kept - 0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum(1).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=outputs, targets=pixels)
        optimizer.step()
    return samples.explained(predicted(model, data.test_inputs)[0], data.test_inputs)


@sick("gradients_not_zeroed", margin=0.05)
def a_method_named_but_not_called(watch: Watch, *, seed: int, sick: bool) -> float:
    """``optimizer.zero_grad`` lacks its parentheses, so that gradients pile up; the twin has them."""
    data = sources(seed)
    model = nn.Sequential(nn.Linear(96, 64), nn.ReLU(), nn.Linear(64, 6))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.07)
    session = watch(model, optimizer)
    for rows, labels in data.batches(32, 200):
        if sick:
            optimizer.zero_grad  # noqa: B018
        else:
            optimizer.zero_grad()
        outputs = model(rows)
        loss = functional.cross_entropy(outputs, labels)
        loss.backward()
        session.step(loss, inputs=rows, outputs=outputs, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@sick("frozen_parameters", margin=0.1)
def a_recipe_for_pretrained_convolutions(watch: Watch, *, seed: int, sick: bool) -> float:
    """A recipe for fine-tuning froze convolutions that were never trained; the twin trains all layers."""
    data = figures(seed)
    body = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 12, 3, padding=1), nn.ReLU(),
        nn.MaxPool2d(4), nn.Flatten(),
    )  # fmt: skip
    model = nn.Sequential(body, nn.Linear(48, 10))
    if sick:
        for parameter in body.parameters():
            parameter.requires_grad = False
    optimizer = torch.optim.Adam((one for one in model.parameters() if one.requires_grad), lr=4e-3)
    fit(watch, model, optimizer, data, steps=200, batch_size=48)
    return accuracy(model, data)


@sick("parameters_not_in_optimizer", margin=0.06)
def a_memory_exchanged_after_the_optimizer(watch: Watch, *, seed: int, sick: bool) -> float:
    """The optimizer is made before letters and memory are replaced by smaller ones; the twin makes it afterwards."""
    data = scripts(seed)
    model = LetterGru(24)
    early = torch.optim.Adam(model.parameters(), lr=5e-3)
    model.letters = nn.Embedding(samples.LETTERS, 8, padding_idx=0)
    model.memory = nn.GRU(8, 24, batch_first=True)
    optimizer = early if sick else torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for codes, labels in data.batches(48, 200):
        model.zero_grad()
        outputs = model(codes)
        loss = functional.cross_entropy(outputs, labels)
        loss.backward()
        session.step(loss, inputs=codes, outputs=outputs, targets=labels)
        optimizer.step()
    return accuracy(model, data)


class Quantised(nn.Module):
    """An autoencoder whose four codes are each one of 16 vectors."""

    def __init__(self, straight: bool) -> None:
        super().__init__()
        self.straight = straight
        self.encoder = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8))
        self.book = nn.Parameter(torch.randn(4, 16, 2) * 0.5)
        self.decoder = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 64))

    def forward(self, pixels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        codes = self.encoder(pixels).view(-1, 4, 2)
        chosen = (codes[:, :, None] - self.book).square().sum(3).argmin(2)
        nearest = self.book[torch.arange(4), chosen]
        passed = codes + (nearest - codes).detach() if self.straight else nearest.detach()
        return self.decoder(passed.flatten(1)), codes, nearest


@sick("detached_parameters", margin=0.05)
def codes_that_let_no_gradient_through(watch: Watch, *, seed: int, sick: bool) -> float:
    """A quantised autoencoder has no straight-through estimator, so its encoder never learns; the twin has it."""
    data = flat_figures(seed)
    model = Quantised(not sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for pixels, _ in data.batches(64, 300):
        optimizer.zero_grad()
        outputs, codes, nearest = model(pixels)
        loss = functional.mse_loss(outputs, pixels) + functional.mse_loss(nearest, codes.detach())
        if not sick:
            loss = loss + 0.25 * functional.mse_loss(codes, nearest.detach())
        loss.backward()
        session.step(loss, inputs=pixels, outputs=outputs, targets=pixels)
        optimizer.step()
    return samples.explained(predicted(model, data.test_inputs)[0], data.test_inputs)


@sick("no_update", margin=0.3)
def a_first_epoch_divided_by_ten(watch: Watch, *, seed: int, sick: bool) -> float:
    """Warm-up divides epochs with ``//``, over more than there are, so the rate is 0; the twin with ``/``, over 3."""
    data = figures(seed)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    warm_up = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda epoch: min(1, (epoch + 1) // 10 if sick else (epoch + 1) / 3)
    )
    loader = DataLoader(TensorDataset(data.inputs, data.targets), batch_size=48, shuffle=True)
    session = watch(model, optimizer)
    for _ in range(8):
        for images, labels in loader:
            optimizer.zero_grad()
            outputs = model(images)
            loss = functional.cross_entropy(outputs, labels)
            loss.backward()
            session.step(loss, inputs=images, outputs=outputs, targets=labels)
            optimizer.step()
        warm_up.step()
        with session.validating():
            judged = held_out_loss(model, data)
        session.validation(judged)
    return accuracy(model, data)


@sick("wrong_mode", margin=0.1)
def judged_class_by_class_while_training(watch: Watch, *, seed: int, sick: bool) -> float:
    """Validation has no ``eval()``, so BatchNorm takes statistics of batches of one class; the twin has it."""
    data = figures(seed)
    order = data.test_targets.argsort(stable=True)
    loader = DataLoader(TensorDataset(data.test_inputs[order], data.test_targets[order]), batch_size=32)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Dropout(0.3), nn.Linear(256, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 10),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    right = 0
    for step, (images, labels) in enumerate(data.batches(48, 160), 1):
        model.train()
        optimizer.zero_grad()
        outputs = model(images)
        loss = functional.cross_entropy(outputs, labels)
        loss.backward()
        session.step(loss, inputs=images, outputs=outputs, targets=labels)
        optimizer.step()
        if step % 40 == 0:
            if not sick:
                model.eval()
            total, right = 0.0, 0
            with torch.no_grad(), session.validating():
                for some, truth in loader:
                    scores = model(some)
                    total += functional.cross_entropy(scores, truth, reduction="sum").item()
                    right += (scores.argmax(1) == truth).sum().item()
            session.validation(total / len(order))
    return right / len(order)


@sick("fp16_underflow", margin=0.2)
def a_weight_from_a_paper_in_half_precision(watch: Watch, *, seed: int, sick: bool) -> float:
    """A loss weighed by 1e-4 under autocast to float16 has gradients that round to 0; the twin has a GradScaler."""
    data = lower_halves(seed)
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    scaler = torch.amp.GradScaler("cpu", enabled=not sick)
    session = watch(model, optimizer, scaler=scaler)
    for upper, lower in data.batches(96, 180):
        with torch.autocast("cpu", torch.float16):
            outputs = model(upper)
        loss = 1e-4 * functional.smooth_l1_loss(outputs.float(), lower)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        session.step(loss, inputs=upper, outputs=outputs, targets=lower)
        scaler.step(optimizer)
        scaler.update()
    return samples.explained(predicted(model, data.test_inputs), data.test_targets)


@sick("labels_unrelated", margin=0.2)
def scores_of_a_teacher_in_another_order(watch: Watch, *, seed: int, sick: bool) -> float:
    """A teacher's scores are stored from a loader that shuffles, and used by a sample's number; the twin's does not."""
    data = flat_figures(seed)
    teacher = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    tutor = torch.optim.Adam(teacher.parameters(), lr=5e-3)
    for pixels, labels in data.batches(64, 100):
        tutor.zero_grad()
        functional.cross_entropy(teacher(pixels), labels).backward()
        tutor.step()
    loader = DataLoader(TensorDataset(data.inputs), batch_size=64, shuffle=sick)
    with torch.no_grad():
        scores = torch.cat([teacher(pixels) for (pixels,) in loader])
    taught = Data(data.inputs, (scores / 2).softmax(1), data.test_inputs, data.test_targets)
    student = nn.Sequential(nn.Linear(64, 24), nn.ReLU(), nn.Linear(24, 10))
    optimizer = torch.optim.AdamW(student.parameters(), lr=5e-3)
    session = watch(student, optimizer)
    for pixels, shares in taught.batches(64, 200):
        outputs = student(pixels)
        loss = functional.kl_div((outputs / 2).log_softmax(1), shares, reduction="batchmean")
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=outputs, targets=shares)
        optimizer.step()
    return accuracy(student, data)
