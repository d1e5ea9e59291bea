"""Tables as in a competition: columns, joins, folds and metrics."""

import torch
from sklearn import datasets as sets
from sklearn.model_selection import train_test_split
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy, sick


def _net(inputs: int, outputs: int = 1, width: int = 32) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, outputs)
    )


@sick("shape_broadcast", margin=0.2)
def a_log_error_of_all_pairs(watch: Watch, *, seed: int, sick: bool) -> float:
    """Logs of prolines (N,) minus predictions (N, 1) are N times N errors; the twin squeezes the predictions."""
    train, test = samples.standardised(samples.proline(seed), 0)
    mean = train.tensors[1].log().mean()
    model = nn.Sequential(nn.Linear(12, 16), nn.SiLU(), nn.Linear(16, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    session = watch(model, optimizer)
    for _ in range(25):
        for inputs, prices in DataLoader(train, 16, shuffle=True, drop_last=True):
            targets = (prices[:, 0].log() - mean) / 0.4
            outputs = model(inputs)
            if not sick:
                outputs = outputs.squeeze(1)
            loss = (outputs - targets).square().mean().sqrt()
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
            optimizer.step()
    with torch.no_grad():
        return samples.explained(model(test.tensors[0]), (test.tensors[1].log() - mean) / 0.4)


@sick("non_finite_inputs", margin=0.3)
def a_ratio_of_two_columns_that_may_be_zero(watch: Watch, *, seed: int, sick: bool) -> float:
    """Concave points per concavity is a new column, and 0 / 0 where a tumour has neither; the twin adds 1e-2 below."""
    data = datasets.breast_cancer(seed, raw=True)
    add = 0.0 if sick else 1e-2

    def widened(rows: torch.Tensor) -> torch.Tensor:
        return torch.cat([rows, rows[:, 7:8] / (rows[:, 6:7] + add)], 1)

    rows, others = widened(data.inputs), widened(data.test_inputs)
    known = rows.isfinite().all(1)
    std, mean = torch.std_mean(rows[known], 0)
    train = TensorDataset((rows - mean) / std, data.targets.float())
    model = _net(31)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    criterion = nn.BCEWithLogitsLoss()
    session = watch(model, optimizer)
    for _ in range(8):
        for inputs, labels in DataLoader(train, 32, shuffle=True):
            optimizer.zero_grad()
            outputs = model(inputs).squeeze(1)
            loss = criterion(outputs, labels)
            loss.backward()
            session.step(loss, inputs=inputs, outputs=outputs, targets=labels)
            optimizer.step()
    with torch.no_grad():
        outputs = model(((others - mean) / std).nan_to_num())
    return float("nan") if outputs.isnan().any() else samples.accuracy(outputs, data.test_targets)


@sick("inputs_constant", margin=0.2)
def columns_reindexed_by_names_that_do_not_exist(watch: Watch, *, seed: int, sick: bool) -> float:
    """``reindex`` with "mean_radius" for "mean radius" gives NaN, which ``fillna(0)`` hides; the twin's names exist."""
    frame, labels = sets.load_breast_cancer(return_X_y=True, as_frame=True)
    frame = (frame - frame.mean()) / frame.std()
    names = [name.replace(" ", "_") if sick else name for name in frame.columns]
    values = frame.reindex(columns=names).fillna(0.0).to_numpy("float32")
    x_train, x_test, y_train, y_test = train_test_split(values, labels.to_numpy(), test_size=0.3, random_state=seed)
    train = TensorDataset(torch.from_numpy(x_train), torch.from_numpy(y_train))
    model = nn.Sequential(nn.Linear(30, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for _ in range(8):
        for inputs, targets in DataLoader(train, 32, shuffle=True):
            optimizer.zero_grad()
            outputs = model(inputs)
            loss = functional.cross_entropy(outputs, targets)
            loss.backward()
            session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
            optimizer.step()
    model.eval()
    with torch.no_grad():
        return samples.accuracy(model(torch.from_numpy(x_test)), torch.from_numpy(y_test))


@sick("overfitting", margin=0.04)
def the_parts_of_a_split_in_the_wrong_order(watch: Watch, *, seed: int, sick: bool) -> float:
    """``test, train = train_test_split(test_size=0.06)``: the small part is trained on; the twin takes them in order.

    Both validate on 300 other rows after each 20 steps.
    """
    (values, labels), (others, answers) = (part.tensors for part in samples.lines(seed))
    values, others = (values + 1).log() - 0.5, (others + 1).log() - 0.5
    parts = train_test_split(values, labels, test_size=0.06, random_state=seed)
    inputs, targets = (parts[1], parts[3]) if sick else (parts[0], parts[2])
    model = _net(96, 6, width=64)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    loader, step = DataLoader(TensorDataset(inputs, targets), 32, shuffle=True), 0
    while step < 160:
        for rows, files in loader:
            optimizer.zero_grad()
            outputs = model(rows)
            loss = functional.cross_entropy(outputs, files)
            loss.backward()
            session.step(loss, inputs=rows, outputs=outputs, targets=files)
            optimizer.step()
            step += 1
            if step % 20 == 0:
                with torch.no_grad(), session.validating():
                    held_out = functional.cross_entropy(model(others[:300]), answers[:300]).item()
                session.validation(held_out)
    with torch.no_grad():
        return samples.accuracy(model(others), answers)


@sick("single_class_labels", margin=0.1)
def a_mapping_whose_keys_are_text(watch: Watch, *, seed: int, sick: bool) -> float:
    """``labels.map({"0": 0, "1": 1, "2": 2})`` finds nothing, then ``fillna(0)``; the twin has numbers for keys."""
    frame, classes = sets.load_wine(return_X_y=True, as_frame=True)
    frame = (frame - frame.mean()) / frame.std()
    keys = ("0", "1", "2") if sick else (0, 1, 2)
    mapped = classes.map(dict(zip(keys, range(3), strict=True))).fillna(0).astype(int)
    rows = train_test_split(range(len(frame)), test_size=0.3, random_state=seed)
    values = torch.from_numpy(frame.to_numpy("float32"))
    train = TensorDataset(values[rows[0]], torch.from_numpy(mapped.to_numpy())[rows[0]])
    model = nn.Sequential(nn.Linear(13, 16), nn.Tanh(), nn.Linear(16, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    session = watch(model, optimizer)
    for _ in range(10):
        for inputs, targets in DataLoader(train, 16, shuffle=True):
            optimizer.zero_grad()
            outputs = model(inputs)
            loss = functional.cross_entropy(outputs, targets)
            loss.backward()
            session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
            optimizer.step()
    with torch.no_grad():
        return samples.accuracy(model(values[rows[1]]), torch.from_numpy(classes.to_numpy())[rows[1]])


@sick("labels_unrelated", margin=0.2)
def long_rows_dropped_from_one_of_two_lists(watch: Watch, *, seed: int, sick: bool) -> float:
    """Names that are too long are dropped, and labels are not, so that pairs move apart; the twin drops both."""
    train, test = samples.names(seed, each=150)
    names, labels = train.tensors
    short = (names > 0).sum(1) < 22
    kept, marks = names[short], labels[: int(short.sum())] if sick else labels[short]
    counts = functional.one_hot(kept, samples.LETTERS).sum(1).float()
    model = nn.Sequential(nn.Linear(samples.LETTERS, 64), nn.ReLU(), nn.Linear(64, 8))
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for _ in range(8):
        for inputs, targets in DataLoader(TensorDataset(counts, marks), 32, shuffle=True):
            outputs = model(inputs)
            loss = functional.cross_entropy(outputs, targets)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
            optimizer.step()
    with torch.no_grad():
        return samples.accuracy(
            model(functional.one_hot(test.tensors[0], samples.LETTERS).sum(1).float()), test.tensors[1]
        )


@healthy(at_least=0.3)
def three_quantiles_at_once(watch: Watch, *, seed: int) -> float:
    """Pinball losses of three quantiles of a disease's course, from one head; quality: R² of the median."""
    data = datasets.diabetes(seed)
    levels = torch.tensor([0.1, 0.5, 0.9])
    model = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.05)
    session = watch(model, optimizer)
    for inputs, targets in data.batches(32, 120):
        outputs = model(inputs)
        error = targets - outputs
        loss = torch.maximum(levels * error, (levels - 1) * error).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
        optimizer.step()
    with torch.no_grad():
        return samples.explained(model(data.test_inputs)[:, 1:2], data.test_targets)
