"""Text: characters to be tagged, to be told next, and names to be classified."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, predicted
from examples.zoo.tuned.opened24.b_sources import CharacterModel, Tagger, parted


def _each(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def _names(seed: int, *, count: int = 24) -> Data:
    train, test = samples.names(seed, length=count)
    return Data(*train.tensors, *test.tensors)


class _Reader(nn.Module):
    """Reads a name in one direction; the mean over its letters is classified."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.embed = nn.Embedding(samples.LETTERS, width, padding_idx=0)
        self.rnn = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, len(samples.SCRIPTS))

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        """Returns the logits (N, 8)."""
        return self.head(self.rnn(self.embed(codes))[0].mean(1))


@sick("labels_unrelated", margin=0.2)
def names_sorted_for_packing_and_labels_not(watch: Watch, *, seed: int, sick: bool) -> float:
    """Names of a batch are sorted by their length, as packing wants it, and labels are not; the twin sorts both."""
    data = _names(seed)
    model = _Reader()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for codes, labels in data.batches(64, 200):
        order = (codes > 0).sum(1).argsort(descending=True)
        codes, labels = codes[order], labels if sick else labels[order]
        optimizer.zero_grad()
        outputs = model(codes)
        loss = functional.cross_entropy(outputs, labels)
        loss.backward()
        session.step(loss, inputs=codes, outputs=outputs, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@sick("inputs_constant", margin=0.2)
def a_vocabulary_of_small_letters(watch: Watch, *, seed: int, sick: bool) -> float:
    """The text is in capitals and the vocabulary is not, so that each letter is unknown; the twin lowers the text."""
    whole = _names(seed)
    vocabulary = {chr(97 + index): 2 + index for index in range(26)}

    def coded(rows: torch.Tensor) -> torch.Tensor:
        text = [[chr(63 + code) if 1 < code < 28 else " " for code in row] for row in rows[:, :8].tolist()]
        text = text if sick else [[letter.lower() for letter in row] for row in text]
        return torch.tensor([[vocabulary.get(letter, 1) for letter in row] for row in text])

    data = Data(coded(whole.inputs), whole.targets, coded(whole.test_inputs), whole.test_targets)
    model = _Reader()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=200)
    return accuracy(model, data)


@sick("class_imbalance", margin=0.1)
def nearly_all_tags_are_outside(watch: Watch, *, seed: int, sick: bool) -> float:
    """About one character of 100 is the first of a doubled letter, half of them missed; the twin weighs the tags."""
    whole = datasets.text(seed, length=25, count=900)
    rows = torch.cat([whole.inputs, whole.test_inputs])
    after = torch.cat([rows[:, 1:], rows[:, :1]], 1)
    doubled = (rows == after) & (rows >= 65) & (rows <= 90)
    noise = torch.rand(rows.shape, generator=torch.Generator().manual_seed(seed)) < 0.5
    data = parted(rows, (doubled & noise).long(), seed)
    model = Tagger(2)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    share = data.targets.float().mean()
    weights = None if sick else torch.stack([0.5 / (1 - share), 0.5 / share])

    def loss_function(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), weight=weights)

    fit(watch, model, optimizer, data, steps=140, batch_size=32, loss_function=loss_function)
    guessed = predicted(model, data.test_inputs).argmax(-1)
    recalls = [(guessed[data.test_targets == tag] == tag).float().mean() for tag in (0, 1)]
    return (sum(recalls) / 2).item()


def _bits(model: nn.Module, data: Data) -> float:
    """Returns which part of the bits of an even guess the model saves."""
    return 1 - _each(predicted(model, data.test_inputs), data.test_targets).item() / 4.585


@sick("poor_initialization", margin=0.1)
def tied_to_embeddings_of_deviation_one(watch: Watch, *, seed: int, sick: bool) -> float:
    """The last layer shares the embedding's default weights, for logits of ±10; the twin draws them by 0.05."""
    data = datasets.text(seed, length=24)
    model = CharacterModel(width=64)
    model.head.weight = model.embed.weight
    if not sick:
        nn.init.normal_(model.embed.weight, std=0.05)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=150, batch_size=32, loss_function=_each)
    return _bits(model, data)


@sick("duplicated_data", also=("overfitting",), margin=0.1)
def the_iterator_is_made_anew_for_each_step(watch: Watch, *, seed: int, sick: bool) -> float:
    """``next(iter(loader))`` of a loader that does not shuffle is the first batch; the twin goes through the loader."""
    data = datasets.text(seed, length=24)
    dataset = torch.utils.data.TensorDataset(data.inputs, data.targets)
    loader = torch.utils.data.DataLoader(dataset, batch_size=32, shuffle=not sick)
    model = CharacterModel()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    batches = iter(loader)
    for step in range(1, 201):
        if sick or step % len(loader) == 0:
            batches = iter(loader)
        codes, following = next(batches)
        optimizer.zero_grad()
        outputs = model(codes)
        loss = _each(outputs, following)
        loss.backward()
        session.step(loss, inputs=codes, outputs=outputs, targets=following)
        optimizer.step()
        if step % 25 == 0:
            session.validation(_each(predicted(model, data.test_inputs), data.test_targets).item())
    return _bits(model, data)


@sick("wrong_output_or_loss", also=("vanishing_gradients", "saturated_units"), margin=0.03)
def scores_of_tags_through_a_sigmoid(watch: Watch, *, seed: int, sick: bool) -> float:
    """The tagger ends in a sigmoid before the cross entropy of 98 characters; the twin gives logits."""
    data = datasets.text(seed, length=24)
    model = nn.Sequential(CharacterModel(), nn.Sigmoid() if sick else nn.Identity())
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=150, batch_size=32, loss_function=_each)
    guessed = predicted(model, data.test_inputs).argmax(-1)
    return (guessed == data.test_targets).float().mean().item()
