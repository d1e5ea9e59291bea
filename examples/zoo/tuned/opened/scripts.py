"""Trainings as they stand in a notebook: all in one cell, nothing reused but the data."""

import copy
import itertools

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick


@sick("gradients_not_zeroed")
def zero_grad_named_but_not_called(watch: Watch, *, seed: int, sick: bool) -> float:
    """``optimizer.zero_grad`` without parentheses is a name, not a call."""
    d = datasets.digits(seed, images=True)
    net = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Conv2d(8, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(256, 10))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.5)
    session = watch(net, optimizer)
    for x, y in d.batches(50, 160):
        _ = optimizer.zero_grad if sick else optimizer.zero_grad()
        out = net(x)
        loss = F.cross_entropy(out, y)
        loss.backward()
        session.step(loss, inputs=x, outputs=out, targets=y)
        optimizer.step()
    with torch.no_grad():
        return (net(d.test_inputs).argmax(1) == d.test_targets).float().mean().item()


@sick("gradients_not_zeroed", margin=0.1)
def one_optimizer_of_two_cleared(watch: Watch, *, seed: int, sick: bool) -> float:
    """Encoder and decoder have an optimizer each, and ``zero_grad`` is called twice on the decoder's."""
    d = datasets.digits(seed)
    encoder = nn.Sequential(nn.Linear(64, 48), nn.GELU(), nn.Linear(48, 12))
    decoder = nn.Sequential(nn.Linear(12, 48), nn.GELU(), nn.Linear(48, 64))
    opt_e = torch.optim.SGD(encoder.parameters(), lr=0.8, momentum=0.9)
    opt_d = torch.optim.SGD(decoder.parameters(), lr=0.8, momentum=0.9)
    watched_e, watched_d = watch(encoder, opt_e), watch(decoder, opt_d)
    for x, _ in d.batches(64, 260):
        (opt_d if sick else opt_e).zero_grad()
        opt_d.zero_grad()
        code = encoder(x)
        painted = decoder(code)
        loss = F.mse_loss(painted, x)
        loss.backward()
        watched_e.step(loss, inputs=x)
        watched_d.step(loss, inputs=code.detach(), outputs=painted, targets=x)
        opt_e.step()
        opt_d.step()
    with torch.no_grad():
        return samples.explained(decoder(encoder(d.test_inputs)), d.test_inputs)


@sick("no_update")
def step_named_but_not_called(watch: Watch, *, seed: int, sick: bool) -> float:
    """``optimizer.step`` without parentheses."""
    train, test = samples.standardised(samples.diagnoses(seed), 0)
    net = nn.Sequential(nn.Unflatten(1, (1, 10)), nn.Conv1d(1, 6, 3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 2))
    optimizer = torch.optim.Adagrad(net.parameters(), lr=0.05)
    session = watch(net, optimizer)
    for _ in range(12):
        for x, y in torch.utils.data.DataLoader(train, batch_size=40, shuffle=True):
            optimizer.zero_grad()
            scores = net(x)
            loss = F.cross_entropy(scores, y)
            loss.backward()
            session.step(loss, inputs=x, outputs=scores, targets=y)
            _ = optimizer.step if sick else optimizer.step()
    with torch.no_grad():
        return samples.accuracy(net(test.tensors[0]), test.tensors[1])


@sick("no_update", also=("parameters_not_in_optimizer",))
def the_optimizer_has_the_model_before_its_copy(watch: Watch, *, seed: int, sick: bool) -> float:
    """The model is copied after the optimizer was made, and the copy is what is trained."""
    d = datasets.wine(seed)
    template = nn.Sequential(nn.Linear(13, 24), nn.Tanh(), nn.Linear(24, 3))
    net = copy.deepcopy(template)
    optimizer = torch.optim.Adam((template if sick else net).parameters(), lr=1e-2)
    session = watch(net, optimizer)
    for x, y in d.batches(24, 120):
        out = net(x)
        loss = F.cross_entropy(out, y)
        net.zero_grad()
        loss.backward()
        session.step(loss, inputs=x, outputs=out, targets=y)
        optimizer.step()
    with torch.no_grad():
        return (net(d.test_inputs).argmax(1) == d.test_targets).float().mean().item()


@sick("parameters_not_in_optimizer", margin=0.1)
def an_encoder_left_out_of_the_chain(watch: Watch, *, seed: int, sick: bool) -> float:
    """``chain`` gets the decoder alone: the encoder stays as it was drawn."""
    d = datasets.digits(seed)
    center = d.inputs.mean(0)
    train, test = (d.inputs - center) * 3, (d.test_inputs - center) * 3
    net = nn.ModuleDict({"encoder": nn.Linear(64, 6), "decoder": nn.Linear(6, 64)})
    parts = [net["decoder"].parameters()] if sick else [net["encoder"].parameters(), net["decoder"].parameters()]
    optimizer = torch.optim.Adam(itertools.chain(*parts), lr=1e-2)
    session = watch(net, optimizer)
    for _ in range(8):
        for x in train[torch.randperm(len(train))].split(60):
            restored = net["decoder"](net["encoder"](x))
            loss = (restored - x).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=x, outputs=restored, targets=x)
            optimizer.step()
    with torch.no_grad():
        return samples.explained(net["decoder"](net["encoder"](test)), test)


class _LateAdapter(nn.Module):
    """Makes its first layer when it sees how wide its inputs are."""

    def __init__(self) -> None:
        super().__init__()
        self.adapter: nn.Module | None = None
        self.top = nn.Linear(6, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.adapter is None:
            self.adapter = nn.Linear(x.shape[1], 6)
        return self.top(self.adapter(x).relu())


@sick("parameters_not_in_optimizer")
def a_layer_made_in_the_first_forward(watch: Watch, *, seed: int, sick: bool) -> float:
    """The first layer comes to be in the first forward pass, after the optimizer has taken all parameters."""
    d = datasets.digits(seed)
    net = _LateAdapter()
    if not sick:
        net(d.inputs[:2])
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    if sick:
        net(d.inputs[:2])
    session = watch(net, optimizer)
    for x, y in d.batches(64, 200):
        optimizer.zero_grad()
        logits = net(x)
        loss = F.cross_entropy(logits, y)
        loss.backward()
        session.step(loss, inputs=x, outputs=logits, targets=y)
        optimizer.step()
    with torch.no_grad():
        return (net(d.test_inputs).argmax(1) == d.test_targets).float().mean().item()


@sick("wrong_mode")
def dropout_that_never_ends(watch: Watch, *, seed: int, sick: bool) -> float:
    """``F.dropout`` drops by default, also in eval mode: what is validated is a model with half of its units."""
    d = datasets.digits(seed)

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(64, 48), nn.Linear(48, 10)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            hidden = F.relu(self.a(x))
            return self.b(F.dropout(hidden, 0.5) if sick else F.dropout(hidden, 0.5, self.training))

    net = Net()
    optimizer = torch.optim.Adam(net.parameters(), lr=4e-3)
    session = watch(net, optimizer)
    for step, (x, y) in enumerate(d.batches(64, 200), 1):
        optimizer.zero_grad()
        logits = net(x)
        loss = F.cross_entropy(logits, y)
        loss.backward()
        session.step(loss, inputs=x, outputs=logits, targets=y)
        optimizer.step()
        if step % 40 == 0:
            net.eval()
            with torch.no_grad(), session.validating():
                session.validation(F.cross_entropy(net(d.test_inputs), d.test_targets).item())
            net.train()
    net.eval()
    with torch.no_grad():
        return (net(d.test_inputs).argmax(1) == d.test_targets).float().mean().item()


@sick("labels_unrelated")
def labels_of_the_row_before(watch: Watch, *, seed: int, sick: bool) -> float:
    """A header line was counted as a row: each label is that of the row before."""
    d = datasets.wine(seed)
    labels = d.targets.roll(1) if sick else d.targets
    net = nn.Sequential(nn.Linear(13, 16), nn.LeakyReLU(), nn.Linear(16, 3))
    optimizer = torch.optim.RMSprop(net.parameters(), lr=2e-3)
    session = watch(net, optimizer)
    for _ in range(30):
        for rows in torch.randperm(len(labels)).split(32):
            scores = net(d.inputs[rows])
            loss = nn.CrossEntropyLoss()(scores, labels[rows])
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=d.inputs[rows], outputs=scores, targets=labels[rows])
            optimizer.step()
    with torch.no_grad():
        return (net(d.test_inputs).argmax(1) == d.test_targets).float().mean().item()


@sick("single_class_labels")
def the_first_rows_of_a_sorted_file(watch: Watch, *, seed: int, sick: bool) -> float:
    """The first 36 rows of a file that is sorted by species are all of one species."""
    d = datasets.iris(seed)
    first = d.targets.argsort(stable=True)[: 36 if sick else None]
    x, y = d.inputs[first], d.targets[first]
    net = nn.Sequential(nn.Linear(4, 12), nn.SiLU(), nn.Linear(12, 3))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    session = watch(net, optimizer)
    for _ in range(100):
        rows = torch.randperm(len(x))[:18]
        scores = net(x[rows])
        loss = F.cross_entropy(scores, y[rows])
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=x[rows], outputs=scores, targets=y[rows])
        optimizer.step()
    with torch.no_grad():
        return (net(d.test_inputs).argmax(1) == d.test_targets).float().mean().item()
