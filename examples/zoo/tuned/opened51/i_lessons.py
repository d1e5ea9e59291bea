"""A teacher's lessons, and the laws of a rod."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, predicted
from examples.zoo.tuned.opened51.i_bench import code_lines, mlp


@sick("wrong_output_or_loss", margin=0.05)
def student_whose_divergence_gets_probabilities(watch: Watch, *, seed: int, sick: bool) -> float:
    """``kl_div`` gets a student's probabilities in place of their logarithms; the twin's get ``log_softmax``."""
    data = code_lines(seed)
    teacher = mlp(96, 128, 6)
    before = torch.optim.Adam(teacher.parameters(), lr=3e-3)
    for rows, labels in data.batches(32, 120):
        before.zero_grad()
        functional.cross_entropy(teacher(rows), labels).backward()
        before.step()
    student = mlp(96, 24, 24, 6)
    optimizer = torch.optim.SGD(student.parameters(), lr=0.05, momentum=0.9)
    session = watch(student, optimizer)
    for rows, _ in data.batches(32, 200):
        wanted = predicted(teacher, rows).div(2).softmax(1)
        logits = student(rows) / 2
        outputs = logits.softmax(1) if sick else logits.log_softmax(1)
        loss = 4 * functional.kl_div(outputs, wanted, reduction="batchmean")
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=outputs, targets=wanted)
        optimizer.step()
    return accuracy(student, data)


class Waves(nn.Module):
    """A smooth function of a place from -1 to 1, by sines of several lengths."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("pitches", torch.pi * torch.arange(1, 9).float())
        self.body = mlp(17, 48, 48, 1, activation=nn.Tanh)

    def forward(self, places: torch.Tensor) -> torch.Tensor:
        angles = places * self.pitches
        return self.body(torch.cat([places, angles.sin(), angles.cos()], 1))


@sick("over_regularized", margin=0.2)
def law_of_a_rod_weighs_more_than_its_measurements(watch: Watch, *, seed: int, sick: bool) -> float:
    """A physical term asks for second derivatives of 0 with a weight of 1, which flattens all; the twin's is 1e-6."""
    picture = samples._photographs()[seed % 2].mean(2)
    values = torch.from_numpy(picture[100 + 20 * seed : 108 + 20 * seed, 100:420].mean(0)).float()
    values = ((values - values.mean()) / values.std())[:, None]
    places = torch.linspace(-1, 1, len(values))[:, None]
    train, test = samples.split(seed, places, values)
    data = Data(*train.tensors, *test.tensors)
    model = Waves()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for inputs, measured in data.batches(64, 350):
        optimizer.zero_grad()
        outputs = model(inputs)
        free = (2 * torch.rand(48, 1) - 1).requires_grad_()
        (slope,) = torch.autograd.grad(model(free).sum(), free, create_graph=True)
        (bend,) = torch.autograd.grad(slope.sum(), free, create_graph=True)
        loss = functional.mse_loss(outputs, measured) + (1.0 if sick else 1e-6) * bend.square().mean()
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=measured)
        optimizer.step()
    return samples.explained(predicted(model, data.test_inputs), data.test_targets)
