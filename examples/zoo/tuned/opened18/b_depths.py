"""Deep nets, modes, and numbers that overflow or stay the same."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.tuned.opened18.b_stock import drawn, overlap


@sick("vanishing_gradients", margin=0.2)
def sigmoids_in_a_deep_denoiser(watch: Watch, *, seed: int, sick: bool) -> float:
    """Eight convolutions each end in a sigmoid, as pixels lie between 0 and 1; the twin's end in a LeakyReLU."""
    train, test = (part.tensors[0].view(-1, 1, 4, 8) for part in samples.halves(seed))
    layers: list[nn.Module] = []
    for number in range(8):
        layers += [nn.Conv2d(8 if number else 1, 8, 3, padding=1), nn.Sigmoid() if sick else nn.LeakyReLU(0.1)]
    model = nn.Sequential(*layers, nn.Conv2d(8, 1, 3, padding=1))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for _ in range(4):
        for clean in DataLoader(train, 32, shuffle=True):
            noisy = clean + 0.2 * torch.randn_like(clean)
            outputs = model(noisy)
            loss = functional.mse_loss(outputs, clean)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=noisy, outputs=outputs, targets=clean)
            optimizer.step()
    with torch.no_grad():
        outputs = model(test + 0.2 * torch.randn_like(test))
    return samples.explained(outputs.flatten(1), test.flatten(1))


@sick("inputs_constant", margin=0.2)
def capitals_in_a_vocabulary_of_small_letters(watch: Watch, *, seed: int, sick: bool) -> float:
    """The vocabulary has small letters, and the names are in capitals: all are unknown; the twin lowers them first."""
    train, test = samples.names(seed, length=16)
    vocabulary = {chr(96 + code): code for code in range(1, 27)}
    unknown = 27

    def looked_up(codes: torch.Tensor) -> torch.Tensor:
        words = ["".join(chr(63 + code) if 2 <= code <= 27 else "-" for code in row) for row in codes.tolist()]
        words = words if sick else [word.lower() for word in words]
        return torch.tensor([[vocabulary.get(letter, unknown) for letter in word] for word in words])

    rows, others = looked_up(train.tensors[0]), looked_up(test.tensors[0])
    model = nn.Sequential(nn.Embedding(28, 16), nn.Flatten(), nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 8))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for _ in range(6):
        for batch in torch.randperm(len(rows)).split(32):
            outputs = model(rows[batch])
            loss = functional.cross_entropy(outputs, train.tensors[1][batch])
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=rows[batch], outputs=outputs, targets=train.tensors[1][batch])
            optimizer.step()
    with torch.no_grad():
        return samples.accuracy(model(others), test.tensors[1])


class _Scanner(nn.Module):
    """Attention over the rows of a digit, of which rows without ink are masked."""

    def __init__(self) -> None:
        super().__init__()
        self.entry = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 64))
        self.query, self.head = nn.Linear(64, 4), nn.Linear(256, 10)
        self.places = nn.Parameter(0.1 * torch.randn(8, 64))

    def forward(self, rows: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        values = torch.relu(self.entry(rows) + self.places)
        scores = self.query(values).masked_fill(hidden[..., None], float("-inf"))
        return self.head((scores.softmax(1).transpose(1, 2) @ values).flatten(1))


@sick("non_finite_forward", margin=0.3)
def a_row_that_is_all_padding(watch: Watch, *, seed: int, sick: bool) -> float:
    """A few samples are masked in all places, and softmax of nothing but -inf is NaN; the twin leaves them a place."""
    data = datasets.digits(seed)
    model = _Scanner()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for step, (inputs, labels) in enumerate(data.batches(48, 220)):
        rows = inputs.view(-1, 8, 8)
        hidden = rows.sum(-1) == 0
        if step >= 30 and step % 10 == 0:
            rows, hidden = rows.clone(), hidden.clone()
            rows[0], hidden[0] = 0.0, True
        if not sick:
            hidden = hidden & ~hidden.all(1, keepdim=True)
        outputs = model(rows, hidden)
        loss = functional.cross_entropy(outputs, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=outputs, targets=labels)
        optimizer.step()
    with torch.no_grad():
        rows = data.test_inputs.view(-1, 8, 8)
        return samples.accuracy(model(rows, rows.sum(-1) == 0), data.test_targets)


@sick("wrong_mode", margin=0.03)
def loaded_in_eval_mode(watch: Watch, *, seed: int, sick: bool) -> float:
    """A function that loads a net returns it in eval mode, and the loop never calls ``train()``; the twin's does."""
    train, test = drawn(seed)

    def from_file() -> nn.Module:
        layers: list[nn.Module] = []
        for number in range(4):
            layers += [nn.Conv2d(8 if number else 1, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU()]
        return nn.Sequential(*layers, nn.Conv2d(8, 1, 1)).eval()

    model = from_file()
    if not sick:
        model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(5):
        for pictures, masks in DataLoader(train, 32, shuffle=True):
            logits = model(pictures)[:, 0]
            loss = functional.binary_cross_entropy_with_logits(logits, masks)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=pictures, outputs=logits, targets=masks)
            optimizer.step()
    model.eval()
    with torch.no_grad():
        return overlap(model(test.tensors[0]), test.tensors[1])


@sick("exploding_gradients", also=("learning_rate_too_high",), margin=0.1)
def neighbours_added_and_not_averaged(watch: Watch, *, seed: int, sick: bool) -> float:
    """Each of three graph layers adds up all neighbours, a hundredfold at most; the twin divides by their number."""
    data = datasets.breast_cancer(seed)
    values = torch.cat([data.inputs, data.test_inputs])
    graph = (torch.cdist(values, values) < 5).float()
    if not sick:
        graph = graph / graph.sum(1, keepdim=True)
    layers = nn.ModuleList([nn.Linear(30, 16), nn.Linear(16, 16), nn.Linear(16, 2)])
    optimizer = torch.optim.SGD(layers.parameters(), lr=0.1, momentum=0.9)
    session = watch(layers, optimizer)

    def answers() -> torch.Tensor:
        states = values
        for number, layer in enumerate(layers):
            states = layer(graph @ states)
            states = torch.relu(states) if number < 2 else states
        return states

    for _ in range(80):
        outputs = answers()[: len(data.inputs)]
        loss = functional.cross_entropy(outputs, data.targets)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=values, outputs=outputs, targets=data.targets)
        optimizer.step()
    with torch.no_grad():
        return samples.accuracy(answers()[len(data.inputs) :], data.test_targets)
