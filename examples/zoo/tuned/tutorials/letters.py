"""Letters and words, as tutorials of language models train on them."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy

END = 0
"""The code of the end of a name, and of the padding behind it."""


def _spelling(seed: int, length: int) -> torch.Tensor:
    """The beginnings of names of letters, each once, as codes (N, length)."""
    names = samples.names(seed, length=length)[0].tensors[0].unique(dim=0)
    return names[torch.randperm(len(names))]


@healthy(at_least=0.25)
def next_characters_by_a_transformer(watch: Watch, *, seed: int) -> float:
    """PyTorch's word language model: time first, log-softmax, ``view(-1, vocabulary)`` and ``nll_loss``."""
    data = datasets.text(seed, length=24, count=1200)
    size, width = datasets.CHARACTERS, 48

    class Language(nn.Transformer):
        def __init__(self) -> None:
            super().__init__(width, 2, num_encoder_layers=1, num_decoder_layers=1, dim_feedforward=96, dropout=0.1)
            self.embed, self.place = nn.Embedding(size, width), nn.Embedding(24, width)
            self.out = nn.Linear(width, size)
            for weight in (self.embed.weight, self.out.weight):
                nn.init.uniform_(weight, -0.1, 0.1)

        def forward(self, codes: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
            mask = nn.Transformer.generate_square_subsequent_mask(len(codes))
            hidden = self.embed(codes) * width**0.5 + self.place(torch.arange(len(codes)))[:, None]
            return functional.log_softmax(self.out(self.encoder(hidden, mask=mask)), dim=-1)

    model = Language()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for codes, following in data.batches(20, 120):
        optimizer.zero_grad()
        outputs = model(codes.t())
        loss = functional.nll_loss(outputs.view(-1, size), following.t().reshape(-1))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        session.step(loss, inputs=codes.t(), outputs=outputs.view(-1, size), targets=following.t().reshape(-1))
        optimizer.step()
    model.eval()
    with torch.no_grad():
        return (model(data.test_inputs.t()).argmax(-1).t() == data.test_targets).float().mean().item()


@healthy(at_least=0.35)
def a_name_letter_by_letter(watch: Watch, *, seed: int) -> float:
    """PyTorch's tutorial that generates names: the net is called for each letter, a name a step."""
    names = _spelling(seed, 10)
    size, width = samples.LETTERS, 48

    class Cell(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.i2h, self.i2o = nn.Linear(size + width, width), nn.Linear(size + width, size)
            self.o2o = nn.Linear(width + size, size)

        def forward(self, letter: torch.Tensor, hidden: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            both = torch.cat([letter, hidden], 1)
            hidden = self.i2h(both)
            return functional.log_softmax(self.o2o(torch.cat([hidden, self.i2o(both)], 1)), dim=1), hidden

    model = Cell()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    right = []
    for step in range(220):
        name = names[torch.randint(len(names), (1,))][0]
        hidden, before = torch.zeros(1, width), torch.tensor(END)
        optimizer.zero_grad()
        loss = torch.zeros(1)
        for letter in name[: int((name != END).sum()) + 1]:
            output, hidden = model(functional.one_hot(before, size)[None].float(), hidden)
            loss = loss + functional.nll_loss(output, letter[None])
            before = letter
            if step >= 170:
                right.append(output.argmax(1) == letter)
        loss.backward()
        session.step(loss)
        optimizer.step()
    return torch.cat(right).float().mean().item()


class _Decoder(nn.Module):
    """Reads the letter before, and the state, one letter after another."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(samples.LETTERS, width)
        self.gru = nn.GRU(width, width, batch_first=True)
        self.out = nn.Linear(width, samples.LETTERS)

    def forward(self, hidden: torch.Tensor, letters: torch.Tensor) -> torch.Tensor:
        before, outputs = torch.zeros(len(letters), 1, dtype=torch.long), []
        for place in range(letters.shape[1]):
            output, hidden = self.gru(functional.relu(self.embed(before)), hidden)
            outputs.append(self.out(output))
            before = letters[:, place : place + 1]
        return functional.log_softmax(torch.cat(outputs, 1), dim=-1)


@healthy(at_least=0.5)
def names_reversed_by_two_nets(watch: Watch, *, seed: int) -> float:
    """PyTorch's translation tutorial: encoder and decoder with an optimizer each, and teacher forcing."""
    names, width = _spelling(seed, 12), 48
    backwards = names.flip(1)
    encoder = nn.ModuleDict({"embed": nn.Embedding(samples.LETTERS, width), "gru": nn.GRU(width, width)})
    decoder = _Decoder(width)
    optimizers = [torch.optim.Adam(net.parameters(), lr=3e-3) for net in (encoder, decoder)]
    reading, writing = watch(encoder, optimizers[0]), watch(decoder, optimizers[1])
    criterion = nn.NLLLoss()
    for _ in range(100):
        rows = torch.randint(len(names) - 60, (32,))
        for optimizer in optimizers:
            optimizer.zero_grad()
        _, hidden = encoder["gru"](encoder["embed"](names[rows]).transpose(0, 1))
        outputs = decoder(hidden, backwards[rows])
        loss = criterion(outputs.view(-1, samples.LETTERS), backwards[rows].view(-1))
        loss.backward()
        reading.step(loss)
        writing.step(loss)
        for optimizer in optimizers:
            optimizer.step()
    with torch.no_grad():
        _, hidden = encoder["gru"](encoder["embed"](names[-60:]).transpose(0, 1))
        return (decoder(hidden, backwards[-60:]).argmax(-1) == backwards[-60:]).float().mean().item()


@healthy(at_least=0.35)
def a_trigram_a_step(watch: Watch, *, seed: int) -> float:
    """PyTorch's tutorial of word embeddings: one context a step, ``view((1, -1))``, and few words to learn."""
    codes = datasets.text(seed, length=200, count=4).inputs[0].tolist()
    kinds = {code: place for place, code in enumerate(sorted(set(codes)))}
    context = torch.tensor([[kinds[code] for code in codes[i - 2 : i]] for i in range(2, len(codes))])
    target = torch.tensor([kinds[code] for code in codes[2:]])

    class Trigrams(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(len(kinds), 10)
            self.hidden, self.out = nn.Linear(20, 128), nn.Linear(128, len(kinds))

        def forward(self, codes: torch.Tensor) -> torch.Tensor:
            hidden = functional.relu(self.hidden(self.embed(codes).view((1, -1))))
            return functional.log_softmax(self.out(hidden), dim=1)

    model = Trigrams()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03)
    session = watch(model, optimizer)
    for step in range(2 * len(context)):
        place = step % len(context)
        model.zero_grad()
        outputs = model(context[place])
        loss = functional.nll_loss(outputs, target[place : place + 1])
        loss.backward()
        session.step(loss, inputs=context[place], outputs=outputs, targets=target[place : place + 1])
        optimizer.step()
    with torch.no_grad():
        return torch.cat([model(one).argmax(1) for one in context]).eq(target).float().mean().item()


@healthy(at_least=0.3)
def makemore(watch: Watch, *, seed: int) -> float:
    """Karpathy's makemore: three letters before, a last layer that starts small, a rate that is set by hand."""
    names = functional.pad(_spelling(seed, 10), (3, 1))
    windows = names.unfold(1, 4, 1).reshape(-1, 4)
    windows = windows[(windows[:, 2] != END) | (windows[:, 3] != END)]
    windows = windows[torch.randperm(len(windows))]
    model = nn.Sequential(
        *(nn.Embedding(samples.LETTERS, 10), nn.Flatten(), nn.Linear(30, 100, bias=False), nn.BatchNorm1d(100)),
        *(nn.Tanh(), nn.Linear(100, samples.LETTERS)),
    )
    with torch.no_grad():
        model[-1].weight.mul_(0.1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    session = watch(model, optimizer)
    for step in range(400):
        rows = torch.randint(500, len(windows), (32,))
        outputs = model(windows[rows, :3])
        loss = functional.cross_entropy(outputs, windows[rows, 3])
        for parameter in model.parameters():
            parameter.grad = None
        loss.backward()
        for group in optimizer.param_groups:
            group["lr"] = 0.1 if step < 300 else 0.01
        session.step(loss, inputs=windows[rows, :3], outputs=outputs, targets=windows[rows, 3])
        optimizer.step()
    model.eval()
    with torch.no_grad():
        return (model(windows[:500, :3]).argmax(1) == windows[:500, 3]).float().mean().item()
