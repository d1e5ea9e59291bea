"""Tables, trained by a small trainer of the kind that every team has."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

from examples.zoo import samples
from examples.zoo.cases import Watch, healthy, sick
from examples.zoo.samples import Pair, standardised


class Trainer:
    """Trains for some epochs and validates after each."""

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer, criterion: Callable[..., Any]) -> None:
        self.model, self.optimizer, self.criterion = model, optimizer, criterion

    def fit(self, watch: Watch, pair: Pair, *, epochs: int, batch_size: int, shuffle: bool = True) -> torch.Tensor:
        """Trains and returns the outputs for the rows to judge by."""
        session = watch(self.model, self.optimizer)
        loader = DataLoader(pair[0], batch_size=batch_size, shuffle=shuffle, drop_last=True)
        for _ in range(epochs):
            self.model.train()
            for features, targets in loader:
                self.optimizer.zero_grad(set_to_none=True)
                predictions = self.model(features)
                loss = self.criterion(predictions, targets)
                loss.backward()
                session.step(loss.detach(), inputs=features, outputs=predictions, targets=targets)
                self.optimizer.step()
            with session.validating():
                outputs = self.predict(pair)
            session.validation(self.criterion(outputs, pair[1].tensors[1]).item())
        return self.predict(pair)

    @torch.no_grad()
    def predict(self, pair: Pair) -> torch.Tensor:
        """Returns the outputs for the rows to judge by."""
        self.model.eval()
        return self.model(pair[1].tensors[0])


class Regressor(nn.Module):
    """A net with one hidden layer and a layer norm."""

    def __init__(self, features: int, outputs: int, hidden: int = 48) -> None:
        super().__init__()
        self.input_layer = nn.Linear(features, hidden)
        self.norm = nn.LayerNorm(hidden)
        self.output_layer = nn.Linear(hidden, outputs)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return self.output_layer(functional.gelu(self.norm(self.input_layer(features))))


def _plain(features: int, outputs: int, hidden: int = 32) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(features, hidden), nn.ELU(), nn.Linear(hidden, hidden), nn.ELU(), nn.Linear(hidden, outputs)
    )


@sick("learning_rate_too_high")
def rmsprop_by_the_rate_of_sgd(watch: Watch, *, seed: int, sick: bool) -> float:
    """The rate was left at 0.5 when SGD was replaced by RMSprop."""
    pair = standardised(samples.tumours(seed), 0, 1)
    model = _plain(10, 10)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=0.5 if sick else 2e-3)
    outputs = Trainer(model, optimizer, nn.MSELoss()).fit(watch, pair, epochs=15, batch_size=24)
    return samples.explained(outputs, pair[1].tensors[1])


@sick("learning_rate_too_low")
def rate_of_a_fine_tuning(watch: Watch, *, seed: int, sick: bool) -> float:
    """A rate of 2e-6, from a recipe for fine-tuning, for a net that starts from nothing."""
    pair = standardised(samples.tumours(seed), 0, 1)
    model = Regressor(10, 10)
    optimizer = torch.optim.NAdam(model.parameters(), lr=2e-6 if sick else 4e-3)
    outputs = Trainer(model, optimizer, nn.SmoothL1Loss()).fit(watch, pair, epochs=15, batch_size=20)
    return samples.explained(outputs, pair[1].tensors[1])


@sick("inputs_not_normalized")
def areas_beside_smoothness(watch: Watch, *, seed: int, sick: bool) -> float:
    """Areas of up to 2500 stand beside measurements below 0.1."""
    raw = samples.diagnoses(seed)
    pair = raw if sick else standardised(raw, 0)
    model = nn.Sequential(nn.Linear(10, 20), nn.Tanh(), nn.Linear(20, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.8)
    outputs = Trainer(model, optimizer, nn.CrossEntropyLoss()).fit(watch, pair, epochs=12, batch_size=20)
    return samples.accuracy(outputs, pair[1].tensors[1])


@sick("shape_broadcast")
def flat_targets_under_huber(watch: Watch, *, seed: int, sick: bool) -> float:
    """The dataset gives flat targets, the model a column."""
    train, test = standardised(samples.proline(seed), 0, 1)
    if sick:
        train = torch.utils.data.TensorDataset(train.tensors[0], train.tensors[1].flatten())
    model = _plain(12, 1, hidden=16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-3)
    outputs = Trainer(model, optimizer, nn.HuberLoss()).fit(watch, (train, test), epochs=20, batch_size=12)
    return samples.explained(outputs, test.tensors[1])


@sick("target_out_of_range", also=("wrong_output_or_loss",))
def a_share_where_hundreds_are_asked(watch: Watch, *, seed: int, sick: bool) -> float:
    """The head ends in a sigmoid; the proline in hundreds is from 2.8 to 16.8."""
    train, test = standardised(samples.proline(seed), 0)
    pair = tuple(torch.utils.data.TensorDataset(one.tensors[0], one.tensors[1] / 100) for one in (train, test))
    model = _plain(12, 1, hidden=24)
    if sick:
        model.append(nn.Sigmoid())
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    outputs = Trainer(model, optimizer, nn.L1Loss()).fit(watch, pair, epochs=30, batch_size=16)  # type: ignore[arg-type]
    return samples.explained(outputs, pair[1].tensors[1])


@sick("loss_sum_not_mean", also=("learning_rate_too_high", "exploding_gradients"))
def errors_of_all_columns_summed(watch: Watch, *, seed: int, sick: bool) -> float:
    """``reduction="sum"`` over a batch of 64 rows of ten columns, at a rate for a mean."""
    pair = standardised(samples.tumours(seed), 0, 1)
    model = _plain(10, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    criterion = nn.MSELoss(reduction="sum" if sick else "mean")
    outputs = Trainer(model, optimizer, criterion).fit(watch, pair, epochs=25, batch_size=64)
    return samples.explained(outputs, pair[1].tensors[1])


@sick("over_regularized")
def decay_meant_for_another_optimizer(watch: Watch, *, seed: int, sick: bool) -> float:
    """A weight decay of 15 in AdamW: a tenth of each weight is gone after each step."""
    pair = standardised(samples.tumours(seed), 0, 1)
    model = _plain(10, 10)
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-3, weight_decay=15.0 if sick else 1e-3)
    outputs = Trainer(model, optimizer, nn.MSELoss()).fit(watch, pair, epochs=12, batch_size=24)
    return samples.explained(outputs, pair[1].tensors[1])


@sick("labels_unrelated")
def features_sorted_targets_not(watch: Watch, *, seed: int, sick: bool) -> float:
    """The features were sorted by a column before they were joined with the diagnoses."""
    train, test = standardised(samples.diagnoses(seed), 0)
    if sick:
        features, labels = train.tensors
        train = torch.utils.data.TensorDataset(features[features[:, 9].argsort()], labels)
    model = nn.Sequential(nn.Linear(10, 8), nn.SiLU(), nn.Linear(8, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    outputs = Trainer(model, optimizer, nn.CrossEntropyLoss()).fit(watch, (train, test), epochs=14, batch_size=25)
    return samples.accuracy(outputs, test.tensors[1])


@sick("flipped_loss_sign")
def similarity_minimised(watch: Watch, *, seed: int, sick: bool) -> float:
    """The cosine similarity itself is the loss, not what it lacks of 1."""
    pair = standardised(samples.tumours(seed), 0, 1)

    def criterion(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        similarity = functional.cosine_similarity(outputs, targets).mean()
        return similarity if sick else 1 - similarity

    model = Regressor(10, 10)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    outputs = Trainer(model, optimizer, criterion).fit(watch, pair, epochs=12, batch_size=32)
    return functional.cosine_similarity(outputs, pair[1].tensors[1]).mean().item()


@sick("single_class_labels")
def compared_with_a_name(watch: Watch, *, seed: int, sick: bool) -> float:
    """The labels are compared with 2, which was benign in an older export; now it is 1."""
    train, test = standardised(samples.diagnoses(seed), 0)
    labels = (train.tensors[1] == (2 if sick else 1)).long()
    model = nn.Sequential(nn.Linear(10, 16), nn.LeakyReLU(), nn.Linear(16, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    pair = torch.utils.data.TensorDataset(train.tensors[0], labels), test
    outputs = Trainer(model, optimizer, nn.CrossEntropyLoss()).fit(watch, pair, epochs=12, batch_size=20)
    return samples.accuracy(outputs, test.tensors[1])


@healthy(at_least=0.6)
def worst_from_mean_measurements(watch: Watch, *, seed: int) -> float:
    """Ten columns from ten columns, with Adamax."""
    pair = standardised(samples.tumours(seed), 0, 1)
    model = Regressor(10, 10, hidden=64)
    optimizer = torch.optim.Adamax(model.parameters(), lr=8e-3)
    outputs = Trainer(model, optimizer, nn.HuberLoss()).fit(watch, pair, epochs=15, batch_size=32)
    return samples.explained(outputs, pair[1].tensors[1])


@healthy(at_least=0.35)
def proline_by_ridge(watch: Watch, *, seed: int) -> float:
    """A linear model with some decay and a last error far above zero."""
    pair = standardised(samples.proline(seed), 0, 1)
    model = nn.Linear(12, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.5, weight_decay=0.01)
    outputs = Trainer(model, optimizer, nn.MSELoss()).fit(watch, pair, epochs=25, batch_size=20)
    return samples.explained(outputs, pair[1].tensors[1])
