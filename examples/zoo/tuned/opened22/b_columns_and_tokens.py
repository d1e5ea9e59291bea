"""Columns as tokens, tables of embeddings, rare tags, and losses of whole distributions."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, r_squared


class ColumnTokens(nn.Module):
    """An FT-Transformer: each column is a token, a further token gathers what the classes are told by."""

    def __init__(self, columns: int, classes: int, batch_first: bool, width: int = 16) -> None:
        super().__init__()
        self.scales, self.shifts = (nn.Parameter(0.5 * torch.randn(columns, width)) for _ in range(2))
        self.gatherer = nn.Parameter(0.5 * torch.randn(1, 1, width))
        layer = nn.TransformerEncoderLayer(width, 2, 32, dropout=0.0, batch_first=batch_first, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, classes)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        tokens = torch.cat([self.gatherer.expand(len(rows), -1, -1), rows[..., None] * self.scales + self.shifts], 1)
        return self.head(self.encoder(tokens)[:, 0])


@sick("batch_mixing", margin=0.2)
def columns_that_attend_to_other_wines(watch: Watch, *, seed: int, sick: bool) -> float:
    """Tokens are (batch, columns, width), and the encoder takes the batch for the tokens; the twin is batch-first."""
    data = datasets.wine(seed)
    model = ColumnTokens(13, 3, batch_first=not sick)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for inputs, labels in data.batches(32, 120):
        outputs = model(inputs)
        loss = functional.cross_entropy(outputs, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=labels)
        optimizer.step()
    return accuracy(model, data)


class Entities(nn.Module):
    """A table of vectors for each of eight letters, kept in a list of Python or in a ``ModuleList``, and a head."""

    def __init__(self, in_a_list: bool) -> None:
        super().__init__()
        tables = [nn.Embedding(samples.LETTERS, 2) for _ in range(8)]
        self.tables = tables if in_a_list else nn.ModuleList(tables)
        self.head = nn.Linear(16, 8)

    def forward(self, names: torch.Tensor) -> torch.Tensor:
        return self.head(torch.cat([table(names[:, place]) for place, table in enumerate(self.tables)], 1))


@sick("parameters_not_in_optimizer", margin=0.03)
def tables_of_categories_in_a_list(watch: Watch, *, seed: int, sick: bool) -> float:
    """Each column has an embedding, and ``parameters()`` has none of a list's; the twin has a ModuleList."""
    train, test = samples.names(seed, each=200)
    model = Entities(in_a_list=sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    session = watch(model, optimizer)
    for _ in range(8):
        for names, labels in DataLoader(train, 32, shuffle=True):
            inputs = names[:, 6:14]
            outputs = model(inputs)
            loss = functional.cross_entropy(outputs, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=inputs, outputs=outputs, targets=labels)
            optimizer.step()
    with torch.no_grad():
        return samples.accuracy(model(test.tensors[0][:, 6:14]), test.tensors[1])


@sick("class_imbalance", margin=0.05)
def nearly_all_tokens_are_outside(watch: Watch, *, seed: int, sick: bool) -> float:
    """Tags of brackets: nineteen characters of twenty are outside of them; the twin weighs the two rare tags by ten.

    A tag tells whether the next character opens or closes a bracket. Quality: the mean recall.
    """
    data = datasets.text(seed, length=24, count=1200)
    opening, closing = ord("(") - 32, ord(")") - 32

    def tags(following: torch.Tensor) -> torch.Tensor:
        return (following == opening).long() + 2 * (following == closing).long()

    model = nn.ModuleDict({"letters": nn.Embedding(datasets.CHARACTERS, 16), "gru": nn.GRU(16, 32, batch_first=True),
                           "head": nn.Linear(32, 3)})  # fmt: skip
    weight = None if sick else torch.tensor([1.0, 10.0, 10.0])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    session = watch(model, optimizer)
    for text, following in data.batches(32, 150):
        targets = tags(following)
        outputs = model["head"](model["gru"](model["letters"](text))[0])
        loss = functional.cross_entropy(outputs.flatten(0, 1), targets.flatten(), weight=weight)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=text, outputs=outputs, targets=targets)
        optimizer.step()
    with torch.no_grad():
        found = model["head"](model["gru"](model["letters"](data.test_inputs))[0]).argmax(-1)
    true = tags(data.test_targets)
    return sum((found[true == tag] == tag).float().mean().item() for tag in range(3)) / 3


@sick("flipped_loss_sign", margin=0.2)
def a_likelihood_that_is_minimised(watch: Watch, *, seed: int, sick: bool) -> float:
    """``Normal(mean, scale).log_prob(targets).mean()`` is the loss; the twin's is minus it."""
    data = datasets.diabetes(seed)
    model = nn.Sequential(nn.Linear(10, 24), nn.Tanh(), nn.Linear(24, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for inputs, targets in data.batches(32, 150):
        optimizer.zero_grad()
        outputs = model(inputs)
        mean, scale = outputs[:, :1], functional.softplus(outputs[:, 1:]) + 0.1
        likelihood = torch.distributions.Normal(mean, scale).log_prob(targets).mean()
        loss = likelihood if sick else -likelihood
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
        optimizer.step()
    with torch.no_grad():
        return samples.explained(model(data.test_inputs)[:, :1], data.test_targets)


@sick("over_regularized", margin=0.05)
def a_lasso_on_everything(watch: Watch, *, seed: int, sick: bool) -> float:
    """The sum of all absolute weights counts 0.05 beside the loss, to choose columns; the twin's counts 0.0002."""
    data = datasets.breast_cancer(seed)
    share = 0.05 if sick else 2e-4
    model = nn.Sequential(nn.Linear(30, 24), nn.ReLU(), nn.Linear(24, 24), nn.ReLU(), nn.Linear(24, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for inputs, labels in data.batches(32, 250):
        outputs = model(inputs)
        loss = functional.cross_entropy(outputs, labels)
        loss = loss + share * sum(parameter.abs().sum() for parameter in model.parameters())
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@sick("inputs_not_normalized", also=("exploding_gradients", "learning_rate_too_high", "dead_units"), margin=0.1)
def numbers_beside_categories_as_they_are(watch: Watch, *, seed: int, sick: bool) -> float:
    """Proline goes up to 1,680 and magnesium to 162 among columns near 1; the twin's are standardised."""
    data = datasets.wine(seed, raw=sick)
    model = nn.Sequential(nn.Linear(13, 32), nn.ReLU(), nn.Linear(32, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(16):
        for inputs, labels in DataLoader(TensorDataset(data.inputs, data.targets), 16, shuffle=True):
            optimizer.zero_grad()
            outputs = model(inputs)
            loss = functional.cross_entropy(outputs, labels)
            loss.backward()
            session.step(loss, inputs=inputs, outputs=outputs, targets=labels)
            optimizer.step()
    return accuracy(model, data)


@sick("clipping_too_strong", margin=0.05)
def a_norm_from_a_recipe_for_adamw(watch: Watch, *, seed: int, sick: bool) -> float:
    """``max_norm=0.01`` harms no AdamW, but makes SGD at 0.03 crawl; the twin clips to 1."""
    data = datasets.diabetes(seed)
    model = nn.Sequential(nn.Linear(10, 24), nn.ReLU(), nn.Linear(24, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03)
    session = watch(model, optimizer)
    for inputs, targets in data.batches(32, 200):
        outputs = model(inputs)
        loss = functional.mse_loss(outputs, targets)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.01 if sick else 1.0)
        session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
        optimizer.step()
    return r_squared(model, data)
