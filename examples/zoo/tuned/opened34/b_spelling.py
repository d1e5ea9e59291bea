"""Names of letters, and lines of Python."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import CHARACTERS, Data
from examples.zoo.loops import accuracy, fit, predicted
from examples.zoo.tuned.opened34.b_common import Speller, parted, scripts


@sick("unbroken_symmetry", also=("poor_initialization",), margin=0.1)
def every_weight_of_a_reader_is_a_twentieth(watch: Watch, *, seed: int, sick: bool) -> float:
    """All parameters of a GRU and its head begin at 0.05, so its units are copies; the twin leaves them as drawn."""
    data = scripts(seed)
    model = Speller(dropout=0.0)
    if sick:
        for name, weights in model.named_parameters():
            if not name.startswith("letters"):
                nn.init.constant_(weights, 0.05)
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    fit(watch, model, optimizer, data, steps=180, batch_size=48)
    return accuracy(model, data)


@sick("saturated_units", also=("poor_initialization",), margin=0.05)
def uniform_without_its_bounds(watch: Watch, *, seed: int, sick: bool) -> float:
    """``uniform_`` draws a GRU's weights from 0 to 1, so its gates stand at their ends; the twin gives it bounds."""
    data = scripts(seed)
    model = Speller()
    bound = 48**-0.5
    for weights in model.reader.parameters():
        nn.init.uniform_(weights) if sick else nn.init.uniform_(weights, -bound, bound)
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    fit(watch, model, optimizer, data, steps=240, batch_size=48)
    return accuracy(model, data)


@sick("inputs_constant", margin=0.2)
def cut_at_the_padded_end(watch: Watch, *, seed: int, sick: bool) -> float:
    """Names padded to 64 are cut to their last 16 places, which are all padding; the twin cuts to the first 16."""
    data = scripts(seed)

    def cut(names: torch.Tensor) -> torch.Tensor:
        padded = functional.pad(names, (0, 40))
        return padded[:, -16:] if sick else padded[:, :16]

    data = Data(cut(data.inputs), data.targets, cut(data.test_inputs), data.test_targets)
    model = nn.Sequential(nn.Embedding(samples.LETTERS, 16), nn.Flatten(), nn.Linear(256, 48), nn.ReLU())
    model.append(nn.Dropout(0.3)).append(nn.Linear(48, 8))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.05)
    fit(watch, model, optimizer, data, steps=160, batch_size=32)
    return accuracy(model, data)


@sick("frozen_parameters", margin=0.05)
def a_reader_frozen_before_it_was_trained(watch: Watch, *, seed: int, sick: bool) -> float:
    """Lines of fine tuning freeze all but the head, yet no weights were loaded; the twin trains everything."""
    data = scripts(seed)
    model = Speller()
    if sick:
        for weights in model.parameters():
            weights.requires_grad = False
        for weights in model.head.parameters():
            weights.requires_grad = True
    optimizer = torch.optim.Adam([one for one in model.parameters() if one.requires_grad], lr=4e-3)
    fit(watch, model, optimizer, data, steps=240, batch_size=48)
    return accuracy(model, data)


@sick("unshuffled_data")
def one_script_after_the_other(watch: Watch, *, seed: int, sick: bool) -> float:
    """A loader without ``shuffle`` reads names in the order of their scripts; the twin shuffles."""
    data = scripts(seed)
    order = data.targets.argsort(stable=True)
    rows = torch.utils.data.TensorDataset(data.inputs[order], data.targets[order])
    loader = torch.utils.data.DataLoader(
        rows, batch_size=32, shuffle=not sick, generator=torch.Generator().manual_seed(seed)
    )
    model = Speller()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for _ in range(13):
        for names, labels in loader:
            optimizer.zero_grad()
            outputs = model(names)
            loss = functional.cross_entropy(outputs, labels)
            loss.backward()
            session.step(loss, inputs=names, outputs=outputs, targets=labels)
            optimizer.step()
    return accuracy(model, data)


def following(model: nn.Module, data: Data) -> float:
    """Returns how often the largest output is at the next character."""
    return (predicted(model, data.test_inputs).argmax(-1) == data.test_targets).float().mean().item()


class Writer(nn.Module):
    """Says the next character at each place."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.letters = nn.Embedding(CHARACTERS, 32)
        self.reader = nn.GRU(32, width, batch_first=True)
        self.head = nn.Linear(width, CHARACTERS)

    def forward(self, characters: torch.Tensor) -> torch.Tensor:
        """Returns logits (N, length, CHARACTERS)."""
        return self.head(self.reader(self.letters(characters))[0])


def next_letter(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Returns the cross entropy over all places."""
    return functional.cross_entropy(outputs.flatten(0, 1), targets.flatten())


@sick("wrong_output_or_loss", margin=0.05)
def probabilities_into_nll_loss(watch: Watch, *, seed: int, sick: bool) -> float:
    """``nll_loss`` gets probabilities, not their logarithms, and goes to -1; the twin gives it ``log_softmax``."""
    data = datasets.text(seed, length=24, count=1200)
    model = Writer()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)

    def loss_function(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        share = outputs.softmax(-1) if sick else outputs.log_softmax(-1)
        return functional.nll_loss(share.flatten(0, 1), targets.flatten())

    fit(watch, model, optimizer, data, steps=190, batch_size=32, loss_function=loss_function)
    return following(model, data)


@sick("schedule_collapsed", also=("learning_rate_too_low",), margin=0.05)
def a_decay_of_epochs_after_each_batch(watch: Watch, *, seed: int, sick: bool) -> float:
    """An exponential decay of 0.85 an epoch is stepped after each batch; the twin steps it after each epoch."""
    data = datasets.text(seed, length=24, count=1200)
    model = Writer()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.85)
    session = watch(model, optimizer)
    for step, (characters, targets) in enumerate(data.batches(32, 174), 1):
        optimizer.zero_grad()
        outputs = model(characters)
        loss = next_letter(outputs, targets)
        loss.backward()
        session.step(loss, inputs=characters, outputs=outputs, targets=targets)
        optimizer.step()
        if sick or step % 29 == 0:
            scheduler.step()
    return following(model, data)


@sick("class_imbalance", margin=0.1)
def few_characters_end_a_line(watch: Watch, *, seed: int, sick: bool) -> float:
    """One window in thirty is followed by a line's end, and all weigh the same; the twin weighs those by twenty."""
    windows = datasets.text(seed, length=12, count=6000)
    inputs, ends = windows.inputs, (windows.targets[:, -1:] == 96).float()
    data = parted(inputs, ends, seed)
    model = nn.Sequential(nn.Embedding(CHARACTERS, 8), nn.Flatten(), nn.Linear(96, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1)
    weight = None if sick else torch.tensor(20.0)

    def loss_function(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return functional.binary_cross_entropy_with_logits(outputs, targets, pos_weight=weight)

    fit(watch, model, optimizer, data, steps=300, batch_size=128, loss_function=loss_function)
    found, true = predicted(model, data.test_inputs) > 0, data.test_targets > 0
    return ((found & true).sum() / true.sum() / 2 + (~found & ~true).sum() / (~true).sum() / 2).item()
