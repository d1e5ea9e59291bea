"""Sound trainings of pictures that look odd: queues, noise as a target, adversaries, masked losses and mixed sizes."""

import copy

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.loops import accuracy
from examples.zoo.tuned.opened25.a_shelf import photographs, whitened


def _moved(pictures: torch.Tensor) -> torch.Tensor:
    shifts = torch.randint(-1, 2, (2,)).tolist()
    moved = functional.pad(pictures, (1, 1, 1, 1), mode="replicate")
    moved = moved[..., 1 + shifts[0] : 9 + shifts[0], 1 + shifts[1] : 9 + shifts[1]]
    return moved + 0.2 * torch.randn_like(moved)


@healthy(at_least=0.7)
def a_queue_of_older_keys(watch: Watch, *, seed: int) -> float:
    """MoCo: keys come from a slow copy, and the loss rises while a queue of negatives fills. Quality: neighbours."""
    data = whitened(seed)
    model = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(256, 32))
    keys = copy.deepcopy(model).requires_grad_(False)
    queue = torch.zeros(0, 32)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    session = watch(model, optimizer)
    for pictures, _ in data.batches(64, 150):
        asked = functional.normalize(model(_moved(pictures)), dim=1)
        with torch.no_grad():
            answers = functional.normalize(keys(_moved(pictures)), dim=1)
        logits = asked @ torch.cat([answers, queue]).T / 0.2
        truth = torch.arange(len(pictures))
        loss = functional.cross_entropy(logits, truth)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pictures, outputs=logits, targets=truth)
        optimizer.step()
        queue = torch.cat([queue, answers])[-512:]
        with torch.no_grad():
            for slow, fast in zip(keys.parameters(), model.parameters(), strict=True):
                slow.lerp_(fast, 0.05)
    with torch.no_grad():
        known = functional.normalize(model(data.inputs), dim=1)
        found = (functional.normalize(model(data.test_inputs), dim=1) @ known.T).argmax(1)
    return (data.targets[found] == data.test_targets).float().mean().item()


@healthy(at_least=0.85)
def noise_from_noise(watch: Watch, *, seed: int) -> float:
    """Noise2Noise: the targets are noisy as well, and the loss stays at their variance. Quality: R² of clean ones."""
    pictures = photographs(seed)
    pictures = (pictures - pictures.mean()) / pictures.std()
    clean, test = pictures.split((750, 250))
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 1, 1)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for _ in range(10):
        for rows in torch.randperm(len(clean)).split(32):
            one, other = (clean[rows] + 0.7 * torch.randn_like(clean[rows]) for _ in range(2))
            outputs = model(one)
            loss = functional.mse_loss(outputs, other)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=one, outputs=outputs, targets=other)
            optimizer.step()
    with torch.no_grad():
        return samples.explained(model(test + 0.7 * torch.randn_like(test)).flatten(1), test.flatten(1))


@healthy(at_least=0.25)
def painted_for_a_critic(watch: Watch, *, seed: int) -> float:
    """Pix2pix: the lower half of a digit by an absolute error and a critic, whose loss stays high. Quality: R²."""
    train, test = samples.halves(seed)
    painter = nn.Sequential(nn.Linear(32, 96), nn.LeakyReLU(0.2), nn.Linear(96, 96), nn.LeakyReLU(0.2))
    painter.append(nn.Sequential(nn.Linear(96, 32), nn.Sigmoid()))
    critic = nn.Sequential(nn.Linear(64, 48), nn.LeakyReLU(0.2), nn.Linear(48, 1))
    painting = torch.optim.Adam(painter.parameters(), lr=2e-3, betas=(0.5, 0.999))
    judging = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.5, 0.999))
    sessions = watch(painter, painting), watch(critic, judging)
    for _ in range(14):
        for upper, lower in DataLoader(train, 64, shuffle=True, drop_last=True):
            made = painter(2 * upper - 1)
            pairs = torch.cat([torch.cat([upper, lower], 1), torch.cat([upper, made.detach()], 1)])
            truth = torch.cat([torch.ones(64, 1), torch.zeros(64, 1)])
            verdicts = critic(pairs)
            loss = functional.binary_cross_entropy_with_logits(verdicts, truth)
            judging.zero_grad()
            loss.backward()
            sessions[1].step(loss, inputs=pairs, outputs=verdicts, targets=truth)
            judging.step()
            verdicts = critic(torch.cat([upper, made], 1))
            fooled = functional.binary_cross_entropy_with_logits(verdicts, torch.ones(64, 1))
            loss = 50 * functional.l1_loss(made, lower) + fooled
            painting.zero_grad()
            loss.backward()
            sessions[0].step(loss, inputs=2 * upper - 1, outputs=made, targets=lower)
            painting.step()
    with torch.no_grad():
        return samples.explained(painter(2 * test.tensors[0] - 1), test.tensors[1])


@healthy(at_least=0.87)
def sure_answers_become_labels(watch: Watch, *, seed: int) -> float:
    """FixMatch: 240 pictures have labels; others count once the net is sure of them, so that the loss sets in late."""
    data = whitened(seed)
    pictures, labels, rest = data.inputs[:240], data.targets[:240], data.inputs[240:]
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.2), nn.Linear(256, 10)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4, nesterov=True)
    session = watch(model, optimizer)
    for _ in range(200):
        rows, others = torch.randint(240, (32,)), torch.randint(len(rest), (96,))
        with torch.no_grad():
            sure, guessed = model(rest[others]).softmax(1).max(1)
        logits = model(torch.cat([_moved(pictures[rows]), _moved(rest[others])]))
        unlabelled = functional.cross_entropy(logits[32:], guessed, reduction="none") * (sure > 0.9)
        loss = functional.cross_entropy(logits[:32], labels[rows]) + unlabelled.mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pictures[rows], outputs=logits[:32], targets=labels[rows])
        optimizer.step()
    return accuracy(model, data)


class _Sines(nn.Module):
    """A SIREN of places in a picture: sines of many periods, with the weights of its paper."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(2, 64), nn.Linear(64, 64), nn.Linear(64, 1)])
        for number, layer in enumerate(self.layers):
            bound = 0.5 if number == 0 else (6 / 64) ** 0.5 / 20
            nn.init.uniform_(layer.weight, -bound, bound)

    def forward(self, places: torch.Tensor) -> torch.Tensor:
        for layer in self.layers[:-1]:
            places = torch.sin(20 * layer(places))
        return self.layers[-1](places)


@healthy(at_least=0.8)
def one_picture_in_sines(watch: Watch, *, seed: int) -> float:
    """A net of sines learns one picture by heart, place by place, and is asked for places between. Quality: R²."""
    picture = datasets.patches(seed, size=48, count=40).view(-1, 48, 48)
    picture = picture[picture.std((1, 2)).argmax()]
    picture = functional.avg_pool2d((picture - picture.mean())[None] / picture.std(), 3, 1, 1)[0]
    line = torch.linspace(-1, 1, 48)
    places = torch.stack(torch.meshgrid(line, line, indexing="ij"), -1).view(-1, 2)
    train, test = samples.split(seed, places, picture.reshape(-1, 1))
    model = _Sines()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    session = watch(model, optimizer)
    for _ in range(40):
        for where, grey in DataLoader(TensorDataset(*train.tensors), 256, shuffle=True):
            outputs = model(where)
            loss = functional.mse_loss(outputs, grey)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=where, outputs=outputs, targets=grey)
            optimizer.step()
    with torch.no_grad():
        return samples.explained(model(test.tensors[0]), test.tensors[1])
