"""Characters of Python's sources and letters of names, trained by a small trainer class."""

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as fn
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick

KINDS = len(samples.SCRIPTS)
Criterion = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


class Coach:
    """Trains for some epochs, validates after each of them, and knows how good the model is."""

    def __init__(self, net: nn.Module, optimizer: torch.optim.Optimizer, criterion: Criterion = fn.cross_entropy):
        self.net, self.optimizer, self.criterion = net, optimizer, criterion
        self.clip_at = 0.0
        self.schedule: torch.optim.lr_scheduler.LRScheduler | None = None

    def train(
        self, watch: Watch, train: Dataset[tuple[torch.Tensor, ...]], test: TensorDataset, epochs: int, size: int = 32
    ) -> "Coach":
        """Trains and returns itself."""
        session = watch(self.net, self.optimizer)
        for _ in range(epochs):
            self.net.train()
            for codes, wanted in DataLoader(train, size, shuffle=True):
                self.optimizer.zero_grad(set_to_none=False)
                logits = self.net(codes)
                loss = self.criterion(logits, wanted)
                loss.backward()
                if self.clip_at:
                    nn.utils.clip_grad_norm_(self.net.parameters(), self.clip_at)
                session.step(loss, inputs=codes, outputs=logits, targets=wanted)
                self.optimizer.step()
                if self.schedule is not None:
                    self.schedule.step()
            self.net.eval()
            with torch.no_grad(), session.validating():
                session.validation(self.criterion(self.net(test.tensors[0]), test.tensors[1]).item())
        return self

    @torch.no_grad()
    def accuracy(self, test: TensorDataset, size: int = 1000, dim: int = -1) -> float:
        """Returns the share of rows, or of their characters, that are classified right."""
        self.net.eval()
        guessed = torch.cat([self.net(rows).argmax(dim) for rows in test.tensors[0].split(size)])
        return (guessed == test.tensors[1]).float().mean().item()


class Namer(nn.Module):
    """Letters to a script: an embedding, a recurrent layer, and the mean over the letters."""

    def __init__(self, embedding: nn.Embedding, cell: type[nn.RNNBase] = nn.GRU, width: int = 28) -> None:
        super().__init__()
        self.letters = embedding
        self.cell = cell(embedding.embedding_dim, width, batch_first=True)
        self.out = nn.Linear(width, KINDS)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        states, _ = self.cell(self.letters(codes))
        return self.out(states.mean(1))


@sick("overfitting", margin=0.05)
def two_dozen_names_in_an_lstm(watch: Watch, *, seed: int, sick: bool) -> float:
    """A wide LSTM is trained on two dozen names until it knows them by heart."""
    train, test = samples.names(seed)
    rows: Dataset[tuple[torch.Tensor, ...]] = Subset(train, range(24)) if sick else train
    net = Namer(nn.Embedding(samples.LETTERS, 20, padding_idx=0), nn.LSTM, 64 if sick else 32)
    optimizer = torch.optim.Adam(net.parameters(), lr=8e-3)
    return Coach(net, optimizer).train(watch, rows, test, 40 if sick else 5, size=12 if sick else 32).accuracy(test)


@sick("learning_rate_too_low")
def adagrad_at_a_ten_thousandth(watch: Watch, *, seed: int, sick: bool) -> float:
    """Adagrad's steps shrink by themselves, and it begins at 1e-4."""
    train, test = samples.names(seed)
    net = nn.Sequential(nn.EmbeddingBag(samples.LETTERS, 32, mode="sum", padding_idx=0), nn.Linear(32, KINDS))
    optimizer = torch.optim.Adagrad(net.parameters(), lr=1e-4 if sick else 0.1)
    return Coach(net, optimizer).train(watch, train, test, 6).accuracy(test)


@sick("learning_rate_too_high")
def adam_at_one_on_a_bag(watch: Watch, *, seed: int, sick: bool) -> float:
    """Adam at a rate of 1 on a bag of letters and a deep head."""
    train, test = samples.names(seed)
    net = nn.Sequential(
        nn.EmbeddingBag(samples.LETTERS, 24, mode="mean", padding_idx=0), nn.Linear(24, 48), nn.ReLU(),
        nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, KINDS),
    )  # fmt: skip
    optimizer = torch.optim.Adam(net.parameters(), lr=1.0 if sick else 6e-3)
    return Coach(net, optimizer).train(watch, train, test, 6).accuracy(test)


@sick("unbroken_symmetry", also=("poor_initialization",))
def every_parameter_at_a_tenth(watch: Watch, *, seed: int, sick: bool) -> float:
    """All parameters of a recurrent net are filled with 0.1, except its embedding's."""
    train, test = samples.names(seed)
    net = Namer(nn.Embedding(samples.LETTERS, 16, padding_idx=0))
    if sick:
        for parameter in (*net.cell.parameters(), *net.out.parameters()):
            nn.init.constant_(parameter, 0.1)
    optimizer = torch.optim.AdamW(net.parameters(), lr=8e-3)
    return Coach(net, optimizer).train(watch, train, test, 5).accuracy(test)


@sick("inputs_constant")
def a_mask_the_wrong_way_round(watch: Watch, *, seed: int, sick: bool) -> float:
    """Letters are multiplied by the mask of the padding: only zeros are left of them."""
    train, test = samples.names(seed)

    def masked(rows: TensorDataset) -> TensorDataset:
        codes, kinds = rows.tensors
        return TensorDataset(codes * (codes == 0) if sick else codes * (codes != 0), kinds)

    net = Namer(nn.Embedding(samples.LETTERS, 16))
    optimizer = torch.optim.NAdam(net.parameters(), lr=8e-3)
    return Coach(net, optimizer).train(watch, masked(train), masked(test), 5).accuracy(masked(test))


class _Pooled(nn.Module):
    """Attention pools the letters of a name; a softmax over dimension 0 weighs the names of a batch instead."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim
        self.letters = nn.Embedding(samples.LETTERS, 24, padding_idx=0)
        self.score = nn.Sequential(nn.Linear(24, 24), nn.Tanh(), nn.Linear(24, 1))
        self.out = nn.Linear(24, KINDS)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        letters = self.letters(codes)
        weights = self.score(letters).softmax(self.dim)
        return self.out((weights * letters).sum(1))


@sick("batch_mixing")
def attention_weights_over_the_batch(watch: Watch, *, seed: int, sick: bool) -> float:
    """The weights of a pooling are a softmax over the batch; names that come alone are all that is judged."""
    train, test = samples.names(seed)
    net = _Pooled(0 if sick else 1)
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-2)
    return Coach(net, optimizer).train(watch, train, test, 7).accuracy(test, size=1)


class _Encoder(nn.Module):
    """A transformer over letters, whose mean is classified."""

    def __init__(self, *, layers: int = 1, batch_first: bool = True, norm_first: bool = True) -> None:
        super().__init__()
        self.letters = nn.Embedding(samples.LETTERS, 32)
        self.places = nn.Parameter(torch.randn(24, 32) * 0.1)
        layer = nn.TransformerEncoderLayer(32, 4, 64, 0.0, batch_first=batch_first, norm_first=norm_first)
        self.body = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.out = nn.Linear(32, KINDS)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        return self.out(self.body(self.letters(codes) + self.places).mean(1))


@sick("batch_mixing", margin=0.05)
def a_transformer_that_wants_time_first(watch: Watch, *, seed: int, sick: bool) -> float:
    """A transformer layer without ``batch_first`` attends over the names of a batch, letter by letter."""
    train, test = samples.names(seed)
    net = _Encoder(batch_first=not sick)
    optimizer = torch.optim.AdamW(net.parameters(), lr=4e-3)
    return Coach(net, optimizer).train(watch, train, test, 6).accuracy(test, size=1)


@sick("missing_warmup", also=("learning_rate_too_high",))
def three_layers_with_norms_behind(watch: Watch, *, seed: int, sick: bool) -> float:
    """RMSprop's first steps are ten rates long, on layers with norms behind their parts; the twin begins slowly."""
    train, test = samples.names(seed, each=80)
    net = _Encoder(layers=3, norm_first=False)
    optimizer = torch.optim.RMSprop(net.parameters(), lr=5e-3)
    coach = Coach(net, optimizer)
    coach.schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0 if sick else 0.01, total_iters=60)
    return coach.train(watch, train, test, 6).accuracy(test)


class _Language(nn.Module):
    """Characters to the next character; the head may be the embedding itself."""

    def __init__(self, *, spread: float = 1.0, tied: bool = False, width: int = 48) -> None:
        super().__init__()
        self.embed = nn.Embedding(datasets.CHARACTERS, width)
        nn.init.normal_(self.embed.weight, std=spread)
        self.cell = nn.GRU(width, width, batch_first=True)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, datasets.CHARACTERS)
        if tied:
            self.head.weight = self.embed.weight

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        return self.head(self.norm(self.cell(self.embed(codes))[0])).transpose(1, 2)


def _rows(data: datasets.Data) -> tuple[TensorDataset, TensorDataset]:
    return TensorDataset(data.inputs, data.targets), TensorDataset(data.test_inputs, data.test_targets)


def _spell(watch: Watch, coach: Coach, data: datasets.Data, *, epochs: int = 4) -> float:
    train, test = _rows(data)
    return coach.train(watch, train, test, epochs).accuracy(test, dim=1)


@sick("poor_initialization")
def tied_embeddings_of_deviation_three(watch: Watch, *, seed: int, sick: bool) -> float:
    """An embedding with a deviation of 3 is the head as well: the first loss is in the dozens."""
    data = datasets.text(seed, length=16, count=1200)
    net = _Language(spread=3.0 if sick else 0.1, tied=True)
    return _spell(watch, Coach(net, torch.optim.Adam(net.parameters(), lr=5e-3)), data)


@sick("labels_unrelated")
def windows_and_targets_from_two_draws(watch: Watch, *, seed: int, sick: bool) -> float:
    """The next characters are taken from other windows than the characters before them."""
    data = datasets.text(seed, length=12, count=1400)
    targets = data.targets[torch.randperm(len(data.targets))] if sick else data.targets
    data = datasets.Data(data.inputs, targets, data.test_inputs, data.test_targets)
    net = _Language()
    return _spell(watch, Coach(net, torch.optim.Adam(net.parameters(), lr=6e-3)), data)


@sick("loss_sum_not_mean", also=("learning_rate_too_high", "exploding_gradients"))
def the_sum_over_all_characters(watch: Watch, *, seed: int, sick: bool) -> float:
    """The loss is summed over 32 windows of 12 characters, at SGD's rate for a mean."""
    data = datasets.text(seed, length=12, count=1400)
    net = _Language()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5, momentum=0.8)

    def criterion(logits: torch.Tensor, following: torch.Tensor) -> torch.Tensor:
        return fn.cross_entropy(logits, following, reduction="sum" if sick else "mean")

    return _spell(watch, Coach(net, optimizer, criterion), data, epochs=5)


@sick("duplicated_data", also=("overfitting", "inputs_constant"))
def windows_with_a_stride_of_zero(watch: Watch, *, seed: int, sick: bool) -> float:
    """The start of each window is multiplied by a stride that an integer division made zero: all are one."""
    data = datasets.text(seed, length=12, count=1400)
    stride = 1 // 12 if sick else 1
    chosen = torch.arange(len(data.inputs)) * stride
    data = datasets.Data(data.inputs[chosen], data.targets[chosen], data.test_inputs, data.test_targets)
    net = _Language()
    return _spell(watch, Coach(net, torch.optim.Adam(net.parameters(), lr=6e-3)), data)


@sick("frozen_parameters")
def from_pretrained_freezes_by_default(watch: Watch, *, seed: int, sick: bool) -> float:
    """``from_pretrained`` got random vectors, and its ``freeze`` is True by default; the head is tied to them."""
    data = datasets.text(seed, length=12, count=1400)
    net = _Language(width=24)
    net.embed = nn.Embedding.from_pretrained(torch.randn(datasets.CHARACTERS, 24) * 0.2, freeze=sick)
    net.head.weight = net.embed.weight
    optimizer = torch.optim.Adam((one for one in net.parameters() if one.requires_grad), lr=6e-3)
    return _spell(watch, Coach(net, optimizer), data)
