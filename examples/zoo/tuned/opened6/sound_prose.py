"""Sound trainings on text and series, with states that are carried and rates that go up and down."""

import torch
from torch import nn
from torch.nn import functional as fn

from examples.zoo.cases import Watch, healthy
from examples.zoo.tuned.opened6.prose import SIZE, UNKNOWN, Lines, Recurrent, bits, corpus, lines, next_right, windows
from examples.zoo.tuned.opened6.waves import AHEAD, PAST, Waves, forecaster, judged, mean_square, skill


@healthy(at_least=0.3)
def a_state_carried_along(watch: Watch, *, seed: int) -> float:
    """Truncated backpropagation: twelve streams are read in their order, and the state goes on without its graph."""
    model = Recurrent(nn.LSTM)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    session, state = watch(model, optimizer), None
    streams = corpus()[:48000].view(12, 4000)
    for begin in range(0, 100 * 20, 20):
        block = streams[:, begin : begin + 21]
        seen, state = model.memory(model.letters(block[:, :-1]), state)
        state = tuple(part.detach() for part in state)
        scores = model.out(seen)
        loss = bits(scores, block)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        session.step(loss, inputs=block[:, :-1], outputs=scores, targets=block[:, 1:])
        optimizer.step()
    return next_right(model)


class Causal(nn.Module):
    """A transformer with its norms first."""

    def __init__(self, width: int = 32, length: int = 24) -> None:
        super().__init__()
        self.letters, self.places = nn.Embedding(SIZE + 1, width), nn.Embedding(length, width)
        block = nn.TransformerEncoderLayer(width, 2, 2 * width, 0.05, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(block, 2, nn.LayerNorm(width), enable_nested_tensor=False)
        self.out = nn.Linear(width, SIZE)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        width = codes.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(width)
        return self.out(self.blocks(self.letters(codes) + self.places(torch.arange(width)), mask=mask))


@healthy(at_least=0.28)
def warmed_up_and_cooled_down(watch: Watch, *, seed: int) -> float:
    """A transformer's recipe: warm-up, then a cosine down to nothing, with clipping that is mostly idle."""
    model = Causal()
    optimizer = torch.optim.AdamW(model.parameters(), lr=8e-3, weight_decay=0.01)
    plan = torch.optim.lr_scheduler.OneCycleLR(optimizer, 8e-3, total_steps=121, pct_start=0.15)
    session = watch(model, optimizer)
    for _ in range(120):
        block = windows(12, 24)
        scores = model(block[:, :-1])
        loss = bits(scores, block)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 2.0)
        session.step(loss, inputs=block[:, :-1], outputs=scores, targets=block[:, 1:])
        optimizer.step()
        plan.step()
    return next_right(model)


class Around(nn.Module):
    """Looks at the characters on both sides, by convolutions."""

    def __init__(self, width: int = 48) -> None:
        super().__init__()
        self.letters = nn.Embedding(SIZE + 1, width)
        self.near = nn.Conv1d(width, width, 5, padding=2)
        self.far = nn.Conv1d(width, width, 3, padding=1)
        self.out = nn.Linear(width, SIZE)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        seen = self.near(self.letters(codes).transpose(1, 2)).relu()
        return self.out((seen + self.far(seen).relu()).transpose(1, 2))


@healthy(at_least=0.36)
def gaps_to_fill(watch: Watch, *, seed: int) -> float:
    """A masked language model: of most targets the loss takes no notice."""
    model = Around()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)

    def gaps(held_out: bool) -> tuple[torch.Tensor, torch.Tensor]:
        codes = windows(300 if held_out else 16, 23, held_out=held_out)
        hidden = torch.rand(codes.shape) < 0.2
        return codes.masked_fill(hidden, SIZE), codes.masked_fill(~hidden, -100)

    for _ in range(130):
        shown, wanted = gaps(False)
        scores = model(shown)
        loss = fn.cross_entropy(scores.flatten(0, 1), wanted.flatten(), ignore_index=-100)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=shown, outputs=scores, targets=wanted)
        optimizer.step()
    model.eval()
    shown, wanted = gaps(True)
    with torch.no_grad():
        guess = model(shown).argmax(-1)
    return float((guess == wanted)[wanted >= 0].float().mean())


@healthy(at_least=0.65)
def modules_of_lines(watch: Watch, *, seed: int) -> float:
    """A classifier of padded lines with two optimizers: Adam for the embedding, SGD for the rest."""
    x, y, x_test, y_test = lines(seed)
    model = Lines()
    others = [weight for name, weight in model.named_parameters() if "letters" not in name]
    slow, fast = torch.optim.SGD(others, lr=0.3, momentum=0.9), torch.optim.Adam(model.letters.parameters(), lr=2e-2)
    session = watch(model, slow)
    for _ in range(4):
        for rows in torch.randperm(len(x)).split(32):
            scores = model(x[rows])
            loss = fn.cross_entropy(scores, y[rows], label_smoothing=0.1)
            model.zero_grad()
            loss.backward()
            session.step(loss, inputs=x[rows], outputs=scores, targets=y[rows])
            slow.step()
            fast.step()
    with torch.no_grad():
        return float((model(x_test).argmax(1) == y_test).float().mean())


class Neighbours(nn.Module):
    """Two tables of vectors with sparse gradients, whose products say which characters stand together."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.middle, self.around = (nn.Embedding(SIZE, width, sparse=True) for _ in range(2))
        nn.init.normal_(self.middle.weight, std=0.3)
        nn.init.zeros_(self.around.weight)

    def forward(self, middle: torch.Tensor, around: torch.Tensor) -> torch.Tensor:
        return (self.middle(middle) * self.around(around)).sum(-1)


@healthy(at_least=0.68)
def characters_by_their_company(watch: Watch, *, seed: int) -> float:
    """Skip-grams with negative samples, by SparseAdam; the quality is how often true and false pairs are told apart."""
    model = Neighbours()
    optimizer = torch.optim.SparseAdam(list(model.parameters()), lr=2e-2)
    session = watch(model, optimizer)

    def pairs(held_out: bool) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        codes = windows(400, 1, held_out=held_out)
        false = torch.randint(UNKNOWN, (400,))
        middle = codes[:, 0].repeat(2)
        return middle, torch.cat([codes[:, 1], false]), torch.cat([torch.ones(400), torch.zeros(400)])

    for _ in range(150):
        middle, around, true = pairs(False)
        scores = model(middle, around)
        loss = fn.binary_cross_entropy_with_logits(scores, true)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=(middle, around), outputs=scores, targets=true)
        optimizer.step()
    middle, around, true = pairs(True)
    with torch.no_grad():
        return float(((model(middle, around) > 0) == (true > 0.5)).float().mean())


class Reservoir(nn.Module):
    """A random recurrent network that is never trained, and a linear readout that is."""

    def __init__(self, size: int = 96) -> None:
        super().__init__()
        back = torch.randn(size, size)
        self.register_buffer("back", 0.9 * back / torch.linalg.eigvals(back).abs().max())
        self.register_buffer("into", 0.5 * torch.randn(size))
        self.read = nn.Linear(size, AHEAD)

    def forward(self, past: torch.Tensor) -> torch.Tensor:
        state = torch.zeros(len(past), len(self.into))
        with torch.no_grad():
            for value in past.unbind(1):
                state = torch.tanh(value[:, None] * self.into + state @ self.back)
        return self.read(state)


@healthy(at_least=0.8)
def a_reservoir(watch: Watch, *, seed: int) -> float:
    """An echo-state network: only its readout has parameters."""
    waves, model = Waves(seed), Reservoir()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
    session = watch(model, optimizer)
    for past, ahead in waves.stream(120):
        guess = model(past)
        loss = mean_square(guess, ahead)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=past, outputs=guess, targets=ahead)
        optimizer.step()
    return judged(model, waves)


@healthy(at_least=0.9)
def rates_in_cycles(watch: Watch, *, seed: int) -> float:
    """A cyclic rate between a hundredth and all of 0.2, from a small net of convolutions."""
    waves = Waves(seed)
    model = nn.Sequential(
        nn.Unflatten(1, (1, PAST)), nn.Conv1d(1, 12, 5, stride=2), nn.ReLU(), nn.Conv1d(12, 12, 5, dilation=2),
        nn.ReLU(), nn.Flatten(), nn.LazyLinear(AHEAD),
    )  # fmt: skip
    model(waves.unseen()[0])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.002, momentum=0.8)
    plan = torch.optim.lr_scheduler.CyclicLR(optimizer, 0.002, 0.2, step_size_up=20, cycle_momentum=False)
    session = watch(model, optimizer)
    for past, ahead in waves.stream(160):
        guess = model(past)
        loss = mean_square(guess, ahead)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=past, outputs=guess, targets=ahead)
        optimizer.step()
        plan.step()
    return judged(model, waves)


@healthy(at_least=0.9)
def four_small_batches(watch: Watch, *, seed: int) -> float:
    """Gradients are accumulated over four small batches, each with a quarter of its loss."""
    waves, model = Waves(seed), forecaster()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for number, (past, ahead) in enumerate(waves.stream(4 * 90, 8), 1):
        guess = model(past)
        (mean_square(guess, ahead) / 4).backward()
        if number % 4 == 0:
            session.step(inputs=past, outputs=guess, targets=ahead)
            optimizer.step()
            optimizer.zero_grad()
    past, ahead = waves.unseen()
    with torch.no_grad():
        return skill(model(past), ahead)
