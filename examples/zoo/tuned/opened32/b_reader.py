"""Letters and words: taggers, language models, and networks that look at whole words."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import fit, predicted
from examples.zoo.tuned.opened32.b_common import LETTERS, prose, words


def _over_places(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def _right_places(model: nn.Module, data: Data) -> float:
    return (predicted(model, data.test_inputs).argmax(-1) == data.test_targets).float().mean().item()


def _positions_of_vowels(seed: int) -> Data:
    """Words, and the number of vowels up to each place, up to 4."""
    data = words(seed)
    vowels = torch.tensor([1, 5, 9, 15, 21])
    found, test = (torch.isin(codes, vowels).long().cumsum(1) for codes in (data.inputs, data.test_inputs))
    return Data(data.inputs, found.clamp(max=4), data.test_inputs, test.clamp(max=4))


class _Encoder(nn.Module):
    """A transformer over the letters of a word, and logits at each."""

    def __init__(self, classes: int, *, batch_first: bool = True, layers: int = 1) -> None:
        super().__init__()
        self.letters, self.places = nn.Embedding(LETTERS, 24), nn.Parameter(0.1 * torch.randn(10, 24))
        layer = nn.TransformerEncoderLayer(24, 2, 48, dropout=0.0, batch_first=batch_first)
        self.body, self.head = nn.TransformerEncoder(layer, layers), nn.Linear(24, classes)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(self.letters(codes) + self.places))


@sick("batch_mixing", also=("wrong_output_or_loss",), margin=0.05)
def a_transformer_that_takes_words_for_places(watch: Watch, *, seed: int, sick: bool) -> float:
    """``batch_first`` is left out, so letters attend to other words' letters; the twin says it."""
    data = _positions_of_vowels(seed)
    model = _Encoder(5, batch_first=not sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=250, batch_size=32, loss_function=_over_places)
    return _right_places(model, data)


@sick("learning_rate_too_low", margin=0.1)
def the_rate_for_tuning_bert_from_scratch(watch: Watch, *, seed: int, sick: bool) -> float:
    """A new transformer is trained at the 2e-5 with which one tunes BERT; the twin has 3e-3."""
    data = _positions_of_vowels(seed)
    model = _Encoder(5)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5 if sick else 3e-3, weight_decay=0.01)
    session = watch(model, optimizer)
    for _ in range(8):
        for codes, counts in data.batches(32, 35):
            logits = model(codes)
            loss = _over_places(logits, counts)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            session.step(loss, inputs=codes, outputs=logits, targets=counts)
            optimizer.step()
            optimizer.zero_grad()
        with session.validating(), torch.no_grad():
            session.validation(_over_places(predicted(model, data.test_inputs), data.test_targets).item())
    return _right_places(model, data)


class _Language(nn.Module):
    """A GRU over letters, whose output shares its weights with the table of letters."""

    def __init__(self, std: float, *, width: int = 64) -> None:
        super().__init__()
        self.letters, self.rnn = nn.Embedding(LETTERS, width), nn.GRU(width, width, batch_first=True)
        nn.init.normal_(self.letters.weight, std=std)
        self.head = nn.Linear(width, LETTERS)
        self.head.weight = self.letters.weight

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        return self.head(self.rnn(self.letters(codes))[0])


@sick("poor_initialization", also=("saturated_units",))
def tied_letters_begin_far_too_wide(watch: Watch, *, seed: int, sick: bool) -> float:
    """Weights shared by table and output are drawn with a deviation of 3, and logits are large; the twin has 0.1."""
    data = prose(seed, length=24)
    model = _Language(3.0 if sick else 0.1)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=160, batch_size=32, loss_function=_over_places)
    return _right_places(model, data)


@sick("loss_sum_not_mean", also=("learning_rate_too_high", "exploding_gradients"), margin=0.05)
def a_sum_over_all_letters_of_a_batch(watch: Watch, *, seed: int, sick: bool) -> float:
    """Cross entropies of 32 windows of 24 letters are summed under SGD; the twin averages them."""
    data = prose(seed, length=24)
    model = nn.Sequential(nn.Embedding(LETTERS, 24), nn.Linear(24, 64), nn.Tanh(), nn.Linear(64, LETTERS))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)

    def loss_function(logits: torch.Tensor, following: torch.Tensor) -> torch.Tensor:
        reduction = "sum" if sick else "mean"
        return functional.cross_entropy(logits.transpose(1, 2), following, reduction=reduction)

    fit(watch, model, optimizer, data, steps=300, batch_size=32, loss_function=loss_function)
    return _right_places(model, data)


@sick("wrong_output_or_loss", margin=0.1)
def a_sigmoid_below_the_logits_loss_of_a_tagger(watch: Watch, *, seed: int, sick: bool) -> float:
    """Which letters a word has is told by sigmoids, to ``BCEWithLogitsLoss``; the twin gives it logits."""
    data = words(seed)

    def held(codes: torch.Tensor) -> torch.Tensor:
        return functional.one_hot(codes, LETTERS).amax(1)[:, 1:].float()

    data = Data(data.inputs, held(data.inputs), data.test_inputs, held(data.test_inputs))
    model = nn.Sequential(nn.Embedding(LETTERS, 16), nn.Flatten(), nn.Linear(160, 96), nn.ReLU(), nn.Linear(96, 26))
    if sick:
        model.append(nn.Sigmoid())
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=300, loss_function=nn.BCEWithLogitsLoss())
    outputs = predicted(model, data.test_inputs)
    found, truth = (outputs if sick else outputs.sigmoid()) > 0.5, data.test_targets > 0.5
    return (2 * (found & truth).sum() / (found.sum() + truth.sum()).clamp(min=1)).item()


@sick("parameters_not_in_optimizer")
def a_new_table_for_new_letters(watch: Watch, *, seed: int, sick: bool) -> float:
    """The head and the table are made anew after the optimizer was built; the twin builds it afterwards."""
    data = prose(seed, length=24)
    model = nn.Sequential(nn.Embedding(8, 24), nn.Linear(24, 8), nn.ReLU(), nn.Linear(8, 8))

    def grown() -> None:
        model[0], model[3] = nn.Embedding(LETTERS, 24), nn.Linear(8, LETTERS)

    if not sick:
        grown()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    if sick:
        grown()
    fit(watch, model, optimizer, data, steps=250, batch_size=32, loss_function=_over_places)
    return _right_places(model, data)
