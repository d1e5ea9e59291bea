"""Several tasks of one body, and pupils of a teacher."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy


@sick("parameters_not_in_optimizer", margin=0.1)
def a_task_that_joins_after_the_optimizer(watch: Watch, *, seed: int, sick: bool) -> float:
    """A second task's layers are added when the optimizer exists; the twin adds a group. Quality: the second task."""
    (rows, worst), (test_rows, test_worst) = (
        part.tensors for part in samples.standardised(samples.tumours(seed), 0, 1)
    )
    model = nn.ModuleDict(
        {"body": nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU()), "first": nn.Linear(32, 5)}
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    model["second"] = nn.Sequential(nn.Linear(32, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Linear(24, 5))
    if not sick:
        optimizer.add_param_group({"params": model["second"].parameters()})
    session = watch(model, optimizer)
    for _ in range(200):
        batch = torch.randint(len(rows), (32,))
        shared = model["body"](rows[batch])
        outputs = torch.cat([model["first"](shared), model["second"](shared)], 1)
        of_first = functional.mse_loss(outputs[:, :5], worst[batch, :5])
        loss = of_first + 0.2 * functional.mse_loss(outputs[:, 5:], worst[batch, 5:])
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows[batch], outputs=outputs, targets=worst[batch])
        optimizer.step()
    model.eval()
    with torch.no_grad():
        return samples.explained(model["second"](model["body"](test_rows)), test_worst[:, 5:])


@sick("wrong_output_or_loss", margin=0.03)
def two_readers_whose_chances_are_averaged(watch: Watch, *, seed: int, sick: bool) -> float:
    """The averaged chances of two nets go into ``cross_entropy``, for logits; the twin takes their logarithm."""
    data = datasets.digits(seed)

    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.left = nn.Sequential(nn.Linear(32, 48), nn.ReLU(), nn.Linear(48, 10))
            self.right = nn.Sequential(nn.Linear(32, 48), nn.ReLU(), nn.Linear(48, 10))

        def forward(self, digits: torch.Tensor) -> torch.Tensor:
            digits = (digits - 0.3) / 0.37
            chances = (self.left(digits[:, :32]).softmax(-1) + self.right(digits[:, 32:]).softmax(-1)) / 2
            return chances if sick else chances.log()

    model = Both()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
    session = watch(model, optimizer)
    for digits, labels in data.batches(64, 300):
        outputs = model(digits)
        loss = functional.cross_entropy(outputs, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=digits, outputs=outputs, targets=labels)
        optimizer.step()
    return accuracy(model, data)


def _teacher(data: datasets.Data) -> nn.Module:
    teacher = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(teacher.parameters(), lr=5e-3)
    for digits, labels in data.batches(128, 80):
        loss = functional.cross_entropy(teacher(digits), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return teacher.eval().requires_grad_(False)


@sick("wrong_mode", margin=0.03)
def teacher_and_pupil_are_both_set_to_eval(watch: Watch, *, seed: int, sick: bool) -> float:
    """A pupil with batch norms is set to ``eval`` together with its teacher; the twin sets only the teacher."""
    data = datasets.digits(seed)
    teacher = _teacher(data)
    layers: list[nn.Module] = [nn.Linear(64, 24, bias=False), nn.BatchNorm1d(24), nn.ReLU()]
    for _ in range(4):
        layers += [nn.Linear(24, 24, bias=False), nn.BatchNorm1d(24), nn.ReLU()]
    pupil = nn.Sequential(*layers, nn.Linear(24, 10))
    for net in (teacher, pupil) if sick else (teacher,):
        net.eval()
    optimizer = torch.optim.SGD(pupil.parameters(), lr=0.02, momentum=0.9)
    session = watch(pupil, optimizer)
    for digits, _ in data.batches(64, 220):
        told, found = teacher(digits), pupil(digits)
        loss = 4 * functional.kl_div((found / 2).log_softmax(-1), (told / 2).softmax(-1), reduction="batchmean")
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=digits, outputs=found, targets=told)
        optimizer.step()
    return accuracy(pupil, data)
