"""Models of characters: recurrent, convolutional and attentive ones, which foretell the next character."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo.cases import Watch, healthy, sick
from examples.zoo.tuned.opened14.craft_sources import SYMBOLS, encoded, passages, share_right, shuffled, source


class _Recurrent(nn.Module):
    """An embedding, a recurrent layer, and a head over the symbols."""

    def __init__(self, cell: type[nn.RNNBase] = nn.GRU, width: int = 48, **options: str) -> None:
        super().__init__()
        self.embedding = nn.Embedding(SYMBOLS, 24)
        self.cell = cell(24, width, batch_first=True, **options)  # type: ignore[arg-type]
        self.head = nn.Linear(width, SYMBOLS)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        return self.head(self.cell(self.embedding(codes))[0])


def _foreseen(model: nn.Module, windows: torch.Tensor) -> float:
    with torch.no_grad():
        return share_right(model.eval()(windows[:, :-1]), windows[:, 1:])


@sick("exploding_gradients", also=("poor_initialization", "learning_rate_too_high"), margin=0.05)
def identity_times_one_and_a_half(watch: Watch, *, seed: int, sick: bool) -> float:
    """Rectified units recur through 1.5 times the identity, whose powers grow over 48 characters; the twin has 0.7."""
    train, test = passages(seed, 49, 1200, "heapq.py", "bisect.py")
    net = _Recurrent(nn.RNN, 40, nonlinearity="relu")
    nn.init.eye_(net.cell.weight_hh_l0)
    with torch.no_grad():
        net.cell.weight_hh_l0.mul_(1.5 if sick else 0.7)
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    session = watch(net, opt)
    for (windows,) in shuffled(32, 160, train):
        opt.zero_grad()
        logits = net(windows[:, :-1])
        loss = functional.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())
        loss.backward()
        session.step(loss, inputs=windows[:, :-1], outputs=logits, targets=windows[:, 1:])
        opt.step()
    return _foreseen(net, test)


class _Causal(nn.Module):
    """A small transformer that looks back, with norms before its parts, and one matrix as embedding and head."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(SYMBOLS, 32)
        self.places = nn.Parameter(0.02 * torch.randn(64, 32))
        layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(32, SYMBOLS, bias=False)
        nn.init.normal_(self.embedding.weight, std=0.1)
        self.head.weight = self.embedding.weight

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        length = codes.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(length)
        return self.head(self.blocks(self.embedding(codes) + self.places[:length], mask=mask, is_causal=True))


@sick("unshuffled_data", margin=0.04)
def one_corpus_after_the_other(watch: Watch, *, seed: int, sick: bool) -> float:
    """Prose, code and constants are read one after the other, each for a third of the training."""
    parts = [passages(seed, 25, 800, file) for file in ("pydoc_data/topics.py", "shutil.py", "html/entities.py")]
    rows, test = torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])
    if not sick:
        rows = rows[torch.randperm(len(rows))]
    net = _Recurrent(nn.GRU)
    opt = torch.optim.Adam(net.parameters(), lr=8e-3)
    session = watch(net, opt)
    for windows in rows.split(16):
        logits = net(windows[:, :-1])
        loss = functional.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=windows[:, :-1], outputs=logits, targets=windows[:, 1:])
        opt.step()
    return _foreseen(net, test)


class _Dilated(nn.Module):
    """Causal convolutions with growing dilation; the scores are made probabilities if asked for."""

    def __init__(self, *, probabilities: bool) -> None:
        super().__init__()
        self.probabilities = probabilities
        self.embedding = nn.Embedding(SYMBOLS, 32)
        self.layers = nn.ModuleList(nn.Conv1d(32, 32, 2, dilation=2**depth) for depth in range(3))
        self.head = nn.Conv1d(32, SYMBOLS, 1)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        states = self.embedding(codes).transpose(1, 2)
        for depth, layer in enumerate(self.layers):
            states = states + functional.relu(layer(functional.pad(states, (2**depth, 0))))
        scores = self.head(states).transpose(1, 2)
        return scores.softmax(-1) if self.probabilities else scores


@sick("wrong_output_or_loss", margin=0.05)
def probabilities_for_sampling(watch: Watch, *, seed: int, sick: bool) -> float:
    """The model puts out probabilities, which sampling needs, and cross entropy takes them for logits."""
    train, test = passages(seed, 33, 1200, "statistics.py")
    net = _Dilated(probabilities=sick)
    opt = torch.optim.AdamW(net.parameters(), lr=3e-3)
    session = watch(net, opt)
    for (windows,) in shuffled(24, 180, train):
        scores = net(windows[:, :-1])
        loss = functional.cross_entropy(scores.reshape(-1, SYMBOLS), windows[:, 1:].reshape(-1))
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=windows[:, :-1], outputs=scores, targets=windows[:, 1:])
        opt.step()
    return _foreseen(net, test)


@sick("loss_sum_not_mean", also=("learning_rate_too_high", "exploding_gradients"), margin=0.05)
def a_sum_over_all_characters(watch: Watch, *, seed: int, sick: bool) -> float:
    """The negative log likelihood is a sum over 640 characters; the rate was chosen for its mean."""
    train, test = passages(seed, 21, 1500, "textwrap.py", "string.py")
    net = nn.Sequential(nn.Embedding(SYMBOLS, 32), _Residual(), nn.Linear(32, SYMBOLS), nn.LogSoftmax(-1))
    opt = torch.optim.SGD(net.parameters(), lr=0.3)
    session = watch(net, opt)
    for (windows,) in shuffled(32, 200, train):
        guess = net(windows[:, :-1])
        loss = -guess.gather(2, windows[:, 1:, None])
        loss = loss.sum() if sick else loss.mean()
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=windows[:, :-1], outputs=guess, targets=windows[:, 1:])
        opt.step()
    return _foreseen(net, test)


class _Residual(nn.Module):
    """A gated recurrence beside a short cut."""

    def __init__(self) -> None:
        super().__init__()
        self.gates = nn.GRU(32, 32, batch_first=True)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        return states + self.gates(states)[0]


@healthy(at_least=0.38)
def state_carried_through_the_text(watch: Watch, *, seed: int) -> float:
    """Truncated back-propagation: twenty streams read on where they stopped, with their detached state."""
    codes = torch.from_numpy(encoded(source("configparser.py")))[: 20 * 2000]
    streams = codes[: len(codes) // 20 * 20].view(20, -1)
    embedding, cell, head = nn.Embedding(SYMBOLS, 24), nn.LSTM(24, 64, batch_first=True), nn.Linear(64, SYMBOLS)
    net = nn.ModuleList([embedding, cell, head])
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)
    session = watch(net, opt)
    kept = streams[:, -300:]
    for _ in range(3):
        state = None
        for start in range(0, streams.shape[1] - 340, 32):
            part = streams[:, start : start + 33]
            states, state = cell(embedding(part[:, :-1]), state)
            logits = head(states)
            loss = functional.cross_entropy(logits.flatten(0, 1), part[:, 1:].flatten())
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            session.step(loss, inputs=part[:, :-1], outputs=logits, targets=part[:, 1:])
            opt.step()
            state = tuple(one.detach() for one in state)
    with torch.no_grad():
        return share_right(head(cell(embedding(kept[:, :-1]))[0]), kept[:, 1:])


@healthy(at_least=0.3)
def tied_embeddings_and_a_warm_up(watch: Watch, *, seed: int) -> float:
    """One matrix is embedding and head; warm-up, then a fall with the root of the steps."""
    train, test = passages(seed, 25, 2000, "random.py", "heapq.py")
    net = _Causal(2)
    opt = torch.optim.AdamW(net.parameters(), lr=6e-3, betas=(0.9, 0.95), weight_decay=0.1)
    noam = torch.optim.lr_scheduler.LambdaLR(opt, lambda done: min((done + 1) / 30, (30 / (done + 1)) ** 0.5))
    session = watch(net, opt)
    for (windows,) in shuffled(32, 200, train):
        logits = net(windows[:, :-1])
        loss = functional.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())
        opt.zero_grad(set_to_none=True)
        loss.backward()
        session.step(loss, inputs=windows[:, :-1], outputs=logits, targets=windows[:, 1:])
        opt.step()
        noam.step()
    return _foreseen(net, test)
