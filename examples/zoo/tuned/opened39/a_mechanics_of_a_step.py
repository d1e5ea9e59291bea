"""What is forgotten around ``backward()`` and ``step()``, and in building a model."""

import copy

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import datasets
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import CHARACTERS
from examples.zoo.loops import accuracy, fit
from examples.zoo.tuned.opened39.a_shared_loaders import (
    excerpts,
    explained,
    glyphs,
    half_digits,
    pixelwise,
    scan_lines,
    stamped,
)


def small_net() -> nn.Sequential:
    """Returns a network of convolutions for digits."""
    return nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(12, 24, 3, padding=1), nn.ReLU()
    ).extend([nn.Flatten(), nn.Linear(384, 10)])


@sick("gradients_not_zeroed", also=("learning_rate_too_high", "exploding_gradients"), margin=0.05)
def zero_grad_once_before_the_loop(watch: Watch, *, seed: int, sick: bool) -> float:
    """``zero_grad()`` stands above the loop over the batches of a segmenter; the twin's stands in it."""
    data = stamped(seed)
    model = nn.Sequential(nn.Conv2d(1, 12, 5, padding=2), nn.ReLU(), nn.Conv2d(12, 12, 3, padding=1), nn.ReLU())
    model.append(nn.Conv2d(12, 1, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    session = watch(model, optimizer)
    optimizer.zero_grad()
    for images, masks in data.batches(32, 250):
        if not sick:
            optimizer.zero_grad()
        logits = model(images)
        loss = functional.binary_cross_entropy_with_logits(logits, masks)
        loss.backward()
        session.step(loss, inputs=images, outputs=logits, targets=masks)
        optimizer.step()
    return pixelwise(model, data)


@sick("gradients_not_zeroed", also=("learning_rate_too_high", "exploding_gradients"), margin=0.05)
def gradients_of_the_other_model_zeroed(watch: Watch, *, seed: int, sick: bool) -> float:
    """``teacher.zero_grad()`` is called in a distillation instead of the student's; the twin zeroes those."""
    data = glyphs(seed)
    teacher = small_net()
    teaching = torch.optim.Adam(teacher.parameters(), lr=3e-3)
    for images, labels in data.batches(64, 80):
        teaching.zero_grad()
        functional.cross_entropy(teacher(images), labels).backward()
        teaching.step()
    teacher.requires_grad_(False)
    student = nn.Sequential(nn.Flatten(), nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
    optimizer = torch.optim.SGD(student.parameters(), lr=0.1, momentum=0.9)
    session = watch(student, optimizer)
    for images, labels in data.batches(48, 160):
        (teacher if sick else optimizer).zero_grad()
        logits = student(images)
        soft = functional.kl_div(logits.log_softmax(1), teacher(images).softmax(1), reduction="batchmean")
        loss = 0.5 * soft + 0.5 * functional.cross_entropy(logits, labels)
        loss.backward()
        session.step(loss, inputs=images, outputs=logits, targets=labels)
        optimizer.step()
    return accuracy(student, data)


@sick("parameters_not_in_optimizer")
def a_new_head_after_the_optimizer(watch: Watch, *, seed: int, sick: bool) -> float:
    """A net for ten digits gets a head for five pairs of them after Adam was made; the twin's gets it before."""
    data = glyphs(seed)
    data = datasets.Data(data.inputs, data.targets % 5, data.test_inputs, data.test_targets % 5)
    model = small_net()
    if not sick:
        model[-1] = nn.Linear(384, 5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    if sick:
        model[-1] = nn.Linear(384, 5)
    fit(watch, model, optimizer, data, steps=150, batch_size=48)
    return accuracy(model, data)


@sick("detached_parameters", margin=0.05)
def features_that_went_through_numpy(watch: Watch, *, seed: int, sick: bool) -> float:
    """An encoder's features are taken through ``detach().numpy()`` on the way to the head; the twin's are not."""
    data = excerpts(seed)

    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.runs = nn.Embedding(CHARACTERS, 24), nn.Conv1d(24, 32, 4)
            self.head = nn.Linear(32, 4)

        def forward(self, codes: torch.Tensor) -> torch.Tensor:
            found = self.runs(self.embedding(codes).transpose(1, 2)).relu().amax(2)
            if sick:
                found = torch.from_numpy(found.detach().numpy())
            return self.head(found)

    model = Two()
    fit(watch, model, torch.optim.AdamW(model.parameters(), lr=4e-3), data, steps=180, batch_size=48)
    return accuracy(model, data)


@sick("no_update", margin=0.2)
def an_optimizer_of_a_copy(watch: Watch, *, seed: int, sick: bool) -> float:
    """The optimizer holds the parameters of a deep copy, as after a move of a model; the twin's holds the model's."""
    data = scan_lines(seed)
    model = nn.Sequential(nn.Flatten(), nn.Linear(24, 32), nn.SiLU(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam((copy.deepcopy(model) if sick else model).parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=200, batch_size=48, loss_function=functional.mse_loss)
    return explained(model, data)


@sick("wrong_mode", also=("vanishing_gradients",), margin=0.05)
def a_check_before_training_that_leaves_eval_on(watch: Watch, *, seed: int, sick: bool) -> float:
    """``eval()`` of a first check is never undone, so each BatchNorm keeps its first statistics; the twin undoes it."""
    data = glyphs(seed)
    layers: list[nn.Module] = [nn.Conv2d(1, 12, 3, padding=1), nn.BatchNorm2d(12), nn.ReLU()]
    for stride in (1, 1, 2, 1, 1, 2):
        layers += [nn.Conv2d(12, 12, 3, padding=1, stride=stride, bias=False), nn.BatchNorm2d(12), nn.ReLU()]
    model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(48, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    session = watch(model, optimizer)
    loader = DataLoader(TensorDataset(data.inputs, data.targets), batch_size=64, shuffle=True)
    for _ in range(8):
        model.eval()
        with torch.no_grad():
            session.validation(functional.cross_entropy(model(data.test_inputs), data.test_targets).item())
        if not sick:
            model.train()
        for images, labels in loader:
            optimizer.zero_grad()
            logits = model(images)
            loss = functional.cross_entropy(logits, labels)
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
    return accuracy(model, data)


@sick("accumulation_not_averaged", also=("learning_rate_too_high", "loss_sum_not_mean", "exploding_gradients"))
def eight_micro_batches_added_up(watch: Watch, *, seed: int, sick: bool) -> float:
    """A batch became eight of 16 rows for lack of memory, and none is divided by 8; the twin divides each."""
    data = half_digits(seed)
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
    session = watch(model, optimizer)
    optimizer.zero_grad()
    for done, (upper, lower) in enumerate(data.batches(16, 1200), 1):
        outputs = model(upper)
        loss = functional.mse_loss(outputs, lower)
        (loss if sick else loss / 8).backward()
        if done % 8 == 0:
            session.step(loss, inputs=upper, outputs=outputs, targets=lower)
            optimizer.step()
            optimizer.zero_grad()
    return explained(model, data)
