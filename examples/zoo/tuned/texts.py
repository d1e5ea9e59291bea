"""Characters: counts of them in lines of Python, and the spelling of names of letters."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, RandomSampler, Subset, TensorDataset

from examples.zoo import samples
from examples.zoo.cases import Watch, healthy, sick
from examples.zoo.tuned.text_models import FILES, SCRIPTS, Bag, Speller, endless, evaluate, train_epoch


@sick("batch_mixing")
def time_and_batch_exchanged(watch: Watch, *, seed: int, sick: bool) -> float:
    """``batch_first`` was forgotten: the cell runs over the names of a batch instead of over their letters."""
    train, test = samples.names(seed)
    model = Speller(batch_first=not sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    session = watch(model, optimizer)
    for codes, labels in endless(DataLoader(train, batch_size=32, shuffle=True), 130):
        logits = model(codes)
        loss = functional.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=codes, outputs=logits, targets=labels)
        optimizer.step()
    model.eval()
    with torch.no_grad():
        logits = torch.cat([model(codes) for codes in test.tensors[0].split(1)])
    return samples.accuracy(logits, test.tensors[1])


@sick("gradients_not_zeroed")
def zeroed_when_logged(watch: Watch, *, seed: int, sick: bool) -> float:
    """``zero_grad`` slipped into the block that logs every 25 steps."""
    train, test = samples.lines(seed)
    model = Bag()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    logged = []
    for step, (counts, labels) in enumerate(endless(DataLoader(train, batch_size=40, shuffle=True), 150)):
        logits = model(counts)
        loss = functional.cross_entropy(logits, labels)
        if step % 25 == 0 or not sick:
            logged.append(loss.detach())
            optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=counts, outputs=logits, targets=labels)
        optimizer.step()
    return evaluate(model, test)


@sick("unshuffled_data")
def one_file_after_the_other(watch: Watch, *, seed: int, sick: bool) -> float:
    """The lines come file by file."""
    train, test = samples.lines(seed)
    order = train.tensors[1].argsort(stable=True)
    rows = TensorDataset(train.tensors[0][order], train.tensors[1][order])
    model = nn.Sequential(nn.LayerNorm(96), nn.Linear(96, 32), nn.SiLU(), nn.Linear(32, FILES))
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    loader = DataLoader(rows, batch_size=32, shuffle=not sick)
    for counts, labels in endless(loader, len(loader) * 6):
        optimizer.zero_grad()
        logits = model(counts)
        loss = functional.cross_entropy(logits, labels)
        loss.backward()
        session.step(loss, inputs=counts, outputs=logits, targets=labels)
        optimizer.step()
    return evaluate(model, test)


class _Lines(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Draws a row for each index, from a generator of its own."""

    def __init__(self, rows: TensorDataset, *, seed_each: bool) -> None:
        self.rows, self.seed_each = rows, seed_each

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        if self.seed_each:
            index = int(torch.randint(len(self.rows), (), generator=torch.Generator().manual_seed(index % 32)))
        return self.rows[index]


@sick("duplicated_data", also=("overfitting",))
def a_generator_seeded_for_each_row(watch: Watch, *, seed: int, sick: bool) -> float:
    """Rows are drawn by a generator that is seeded with the place in the batch: each batch is the same."""
    train, test = samples.lines(seed)
    model = Bag()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    loader = DataLoader(_Lines(train, seed_each=sick), batch_size=32, shuffle=not sick)
    for step, (counts, labels) in enumerate(endless(loader, 140), 1):
        optimizer.zero_grad()
        logits = model(counts)
        loss = functional.cross_entropy(logits, labels)
        loss.backward()
        session.step(loss, inputs=counts, outputs=logits, targets=labels)
        optimizer.step()
        if step % 35 == 0:
            with torch.no_grad(), session.validating():
                model.eval()
                session.validation(functional.cross_entropy(model(test.tensors[0]), test.tensors[1]).item())
                model.train()
    return evaluate(model, test)


@sick("wrong_output_or_loss")
def likelihood_of_raw_scores(watch: Watch, *, seed: int, sick: bool) -> float:
    """``nll_loss`` without ``log_softmax``: the loss falls without end."""
    train, test = samples.lines(seed)
    model = nn.Sequential(nn.LayerNorm(96), nn.Linear(96, 24), nn.Tanh(), nn.Linear(24, FILES))
    if not sick:
        model.append(nn.LogSoftmax(-1))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for counts, labels in endless(DataLoader(train, batch_size=50, shuffle=True), 160):
        scores = model(counts)
        loss = functional.nll_loss(scores, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=counts, outputs=scores, targets=labels)
        optimizer.step()
    return evaluate(model, test)


class _Logarithms(nn.Module):
    """The logarithm of each count before a net."""

    def __init__(self, *, plus_one: bool) -> None:
        super().__init__()
        self.plus_one = plus_one
        self.net = nn.Sequential(nn.Linear(96, 32), nn.ReLU(), nn.Linear(32, FILES))

    def forward(self, counts: torch.Tensor) -> torch.Tensor:
        return self.net(torch.log1p(counts) if self.plus_one else torch.log(counts))


@sick("non_finite_forward")
def logarithm_of_counts_of_zero(watch: Watch, *, seed: int, sick: bool) -> float:
    """``log`` where ``log1p`` was meant; most characters do not occur in a line."""
    train, test = samples.lines(seed)
    model = _Logarithms(plus_one=not sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for _ in range(4):
        train_epoch(model, DataLoader(train, batch_size=32, shuffle=True), optimizer, session)
    return evaluate(model, test)


@sick("overfitting", margin=0.1)
def forty_eight_names(watch: Watch, *, seed: int, sick: bool) -> float:
    """A subset for debugging was left in: 48 names, known by heart after a few epochs."""
    train, test = samples.names(seed)
    rows: Dataset = Subset(train, range(48)) if sick else train
    model = Speller(32)
    optimizer = torch.optim.Adam(model.parameters(), lr=8e-3)
    session = watch(model, optimizer)
    sampler = RandomSampler(rows, replacement=False)  # type: ignore[arg-type]
    for step, (codes, labels) in enumerate(endless(DataLoader(rows, batch_size=24, sampler=sampler), 140), 1):
        logits = model(codes)
        loss = functional.cross_entropy(logits, labels)
        model.zero_grad()
        loss.backward()
        session.step(loss, inputs=codes, outputs=logits, targets=labels)
        optimizer.step()
        if step % 20 == 0:
            with torch.no_grad(), session.validating():
                model.eval()
                session.validation(functional.cross_entropy(model(test.tensors[0]), test.tensors[1]))
                model.train()
    return evaluate(model, test)


class _Reader(nn.Module):
    """A transformer that reads a name and pools its letters, with norms behind the parts."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.embed = nn.Embedding(samples.LETTERS, width, padding_idx=0)
        self.place = nn.Embedding(24, width)
        layer = nn.TransformerEncoderLayer(width, 2, 2 * width, dropout=0.05, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, SCRIPTS)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        padded = codes == 0
        padded[:, 0] = False
        states = self.encoder(self.embed(codes) + self.place(torch.arange(codes.shape[1])), src_key_padding_mask=padded)
        return self.head(states.masked_fill(padded[..., None], 0).sum(1) / (~padded).sum(1, keepdim=True))


@healthy(at_least=0.5)
def names_read_by_a_transformer(watch: Watch, *, seed: int) -> float:
    """Masked padding, one-cycle schedule, clipping to 1."""
    train, test = samples.names(seed)
    model = _Reader()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.02)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=6e-3, total_steps=140)
    session = watch(model, optimizer)
    for codes, labels in endless(DataLoader(train, batch_size=24, shuffle=True), 140):
        logits = model(codes)
        loss = functional.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        session.step(loss, inputs=codes, outputs=logits, targets=labels)
        optimizer.step()
        scheduler.step()
    return evaluate(model, test)


@healthy(at_least=0.5)
def names_in_a_gru(watch: Watch, *, seed: int) -> float:
    """A loop that tells the loss alone."""
    train, test = samples.names(seed)
    model = Speller()
    optimizer = torch.optim.NAdam(model.parameters(), lr=8e-3)
    session = watch(model, optimizer)
    for _ in range(7):
        train_epoch(model, DataLoader(train, batch_size=32, shuffle=True), optimizer, session)
    return evaluate(model, test)


@healthy(at_least=0.6)
def lines_with_batch_norm(watch: Watch, *, seed: int) -> float:
    """A bag of characters with dropout, RMSprop, and a rate that falls by steps."""
    train, test = samples.lines(seed)
    model = Bag(dropout=0.3)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=4e-3)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3, 0.5)
    session = watch(model, optimizer)
    for _ in range(7):
        train_epoch(model, DataLoader(train, batch_size=48, shuffle=True, drop_last=True), optimizer, session)
        scheduler.step()
        with session.validating():
            session.validation(1 - evaluate(model, test))
    return evaluate(model, test)
