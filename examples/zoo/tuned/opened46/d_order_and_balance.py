"""In which order samples come, and how many there are of each class."""

import torch
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data, diabetes
from examples.zoo.loops import fit, predicted, r_squared
from examples.zoo.tuned.opened46.d_kit import Reader, perceptron, scripts


@sick("unshuffled_data", margin=0.1)
def patients_sorted_by_their_score(watch: Watch, *, seed: int, sick: bool) -> float:
    """A table is sorted by its target and read in that order in batches of 8; the twin's loader shuffles."""
    data = diabetes(seed)
    order = data.targets.squeeze(1).argsort()
    loader = DataLoader(TensorDataset(data.inputs[order], data.targets[order]), batch_size=8, shuffle=not sick)
    model = perceptron(10, 12, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.5, weight_decay=0.01)
    session = watch(model, optimizer)
    for _ in range(7):
        for rows, scores in loader:
            optimizer.zero_grad()
            outputs = model(rows)
            loss = functional.mse_loss(outputs, scores)
            loss.backward()
            session.step(loss, inputs=rows, outputs=outputs, targets=scores)
            optimizer.step()
    return r_squared(model, data)


@sick("class_imbalance", margin=0.1)
def a_rare_script_without_weights(watch: Watch, *, seed: int, sick: bool) -> float:
    """One name in thirty is Hebrew, and the loss weighs all alike, so none is found; the twin weighs the rare ones."""
    drawn = scripts(seed)
    rare, others = (drawn.targets == 4).nonzero()[:, 0], (drawn.targets != 4).nonzero()[:, 0]
    kept = torch.cat([rare[: len(others) // 29], others])
    labels, test_labels = (drawn.targets[kept] == 4).long(), (drawn.test_targets == 4).long()
    data = Data(drawn.inputs[kept], labels, drawn.test_inputs, test_labels)
    model = Reader(24, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    weight = None if sick else len(labels) / 2 / labels.bincount().float()
    fit(
        watch, model, optimizer, data, steps=160, batch_size=48,
        loss_function=lambda outputs, targets: functional.cross_entropy(outputs, targets, weight=weight),
    )  # fmt: skip
    found = predicted(model, data.test_inputs).argmax(1)
    return sum((found[test_labels == label] == label).float().mean().item() for label in (0, 1)) / 2
