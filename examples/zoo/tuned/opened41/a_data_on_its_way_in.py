"""Data that a pipeline spoils on its way into the model."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, TensorDataset, WeightedRandomSampler

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, predicted


@sick("inputs_not_normalized", also=("exploding_gradients", "learning_rate_too_high"), margin=0.03)
def scaler_forgotten_for_tumours(watch: Watch, *, seed: int, sick: bool) -> float:
    """Areas of up to 2,500 come beside smoothnesses of 0.1 into a classifier; the twin standardises the columns."""
    pair = samples.diagnoses(seed)
    train, test = pair if sick else samples.standardised(pair, 0)
    model = nn.Sequential(nn.Linear(10, 24), nn.ReLU(), nn.Linear(24, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(12):
        for rows, labels in DataLoader(train, batch_size=32, shuffle=True):
            optimizer.zero_grad()
            logits = model(rows).squeeze(1)
            loss = functional.binary_cross_entropy_with_logits(logits, labels.float())
            loss.backward()
            session.step(loss, inputs=rows, outputs=logits, targets=labels)
            optimizer.step()
    return samples.accuracy(predicted(model, test.tensors[0]), test.tensors[1])


@sick("inputs_not_normalized", also=("exploding_gradients", "learning_rate_too_high", "dead_units"), margin=0.05)
def photographs_as_bytes(watch: Watch, *, seed: int, sick: bool) -> float:
    """Patches from 0 to 255 go into an autoencoder of patches from 0 to 1; the twin divides both and centres them."""
    patches = datasets.patches(seed, count=1500)
    train, test = patches[:1200], patches[1200:]
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 64))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)

    def prepared(values: torch.Tensor) -> torch.Tensor:
        return values if sick else (values / 255 - 0.4) / 0.25

    for _ in range(10):
        for rows in torch.randperm(len(train)).split(50):
            optimizer.zero_grad()
            inputs, targets = prepared(train[rows]), (train[rows] / 255 - 0.4) / 0.25
            outputs = model(inputs)
            loss = functional.mse_loss(outputs, targets)
            loss.backward()
            session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
            optimizer.step()
    return samples.explained(predicted(model, prepared(test)), (test / 255 - 0.4) / 0.25)


@sick("non_finite_inputs", also=("non_finite_forward",), margin=0.3)
def empty_cells_of_a_table(watch: Watch, *, seed: int, sick: bool) -> float:
    """Every hundredth cell of a table of wines is NaN, as if read from a file; the twin fills them with means."""
    data = datasets.wine(seed)
    features = data.inputs.clone()
    features[torch.rand(features.shape) < 0.01] = torch.nan
    if not sick:
        features = torch.where(features.isnan(), features.nanmean(0), features)
    model = nn.Sequential(nn.Linear(13, 24), nn.Tanh(), nn.Linear(24, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    session = watch(model, optimizer)
    for _ in range(20):
        for rows, labels in DataLoader(TensorDataset(features, data.targets), batch_size=16, shuffle=True):
            optimizer.zero_grad()
            logits = model(rows)
            loss = functional.cross_entropy(logits, labels)
            loss.backward()
            session.step(loss, inputs=rows, outputs=logits, targets=labels)
            optimizer.step()
    return accuracy(model, data)


@sick("labels_unrelated", also=("overfitting",), margin=0.2)
def features_and_labels_split_apart(watch: Watch, *, seed: int, sick: bool) -> float:
    """Counts of characters and their files are shuffled by two permutations; the twin shuffles them by one."""
    train, test = samples.standardised(samples.lines(seed), 0)
    counts, labels = train.tensors
    order = torch.randperm(len(counts))
    counts, labels = counts[order], labels[torch.randperm(len(labels)) if sick else order]
    model = nn.Sequential(nn.Linear(96, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, len(samples.FILES)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for _ in range(8):
        for rows, names in DataLoader(TensorDataset(counts, labels), batch_size=32, shuffle=True):
            logits = model(rows)
            loss = functional.cross_entropy(logits, names)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=rows, outputs=logits, targets=names)
            optimizer.step()
        validation = functional.cross_entropy(predicted(model, test.tensors[0]), test.tensors[1])
        session.validation(validation.item())
    return samples.accuracy(predicted(model, test.tensors[0]), test.tensors[1])


@sick("labels_unrelated", margin=0.2)
def masks_paired_with_other_pictures(watch: Watch, *, seed: int, sick: bool) -> float:
    """A loader of pictures and masks sorts the masks by their brightness, not by their names; the twin does not."""
    train, test = samples.numerals(seed)
    pictures = train.tensors[0]
    masks = (pictures > 0.3).float()
    if sick:
        masks = masks[masks.flatten(1).sum(1).argsort()]
    model = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 1, 3, padding=1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    session = watch(model, optimizer)
    for _ in range(5):
        for images, wanted in DataLoader(TensorDataset(pictures, masks), batch_size=48, shuffle=True):
            noisy = images + 0.2 * torch.randn_like(images)
            logits = model(noisy)
            loss = functional.binary_cross_entropy_with_logits(logits, wanted)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=noisy, outputs=logits, targets=wanted)
            optimizer.step()
    found, wanted = predicted(model, test.tensors[0]) > 0, test.tensors[0] > 0.3
    return ((found & wanted).sum() / (found | wanted).sum()).item()


@sick("class_imbalance", margin=0.05)
def one_eight_among_fifty_digits(watch: Watch, *, seed: int, sick: bool) -> float:
    """Of 50 digits one is an eight, all drawn alike; the twin's sampler draws eights and others equally often.

    The quality is the mean of the recalls.
    """
    train, test = samples.numerals(seed)
    images, labels = train.tensors[0].flatten(1), (train.tensors[1] == 8).long()
    kept = torch.cat([torch.where(labels == 0)[0], torch.where(labels == 1)[0][:22]])
    images, labels = images[kept], labels[kept]
    weights = torch.where(labels == 1, 0.5 / 22, 0.5 / (len(labels) - 22))
    sampler = WeightedRandomSampler(weights.tolist(), len(labels))
    dataset = TensorDataset(images, labels)
    loader = DataLoader(dataset, 32, shuffle=True) if sick else DataLoader(dataset, 32, sampler=sampler)
    model = nn.Sequential(nn.Dropout(0.3), nn.Linear(64, 12), nn.ReLU(), nn.Linear(12, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-3)
    session = watch(model, optimizer)
    for _ in range(4):
        for rows, eights in loader:
            logits = model(rows)
            loss = functional.cross_entropy(logits, eights)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=rows, outputs=logits, targets=eights)
            optimizer.step()
    found, wanted = predicted(model, test.tensors[0].flatten(1)).argmax(1), (test.tensors[1] == 8).long()
    return sum((found == wanted)[wanted == value].float().mean().item() for value in (0, 1)) / 2


@sick("duplicated_data", also=("overfitting",), margin=0.05)
def getitem_modulo_the_batch_size(watch: Watch, *, seed: int, sick: bool) -> float:
    """A dataset's ``__getitem__`` takes the index modulo 32, the size of a batch; the twin modulo its length."""
    train, test = samples.names(seed)
    period = 32 if sick else len(train)

    class Names(Dataset[tuple[torch.Tensor, ...]]):
        def __len__(self) -> int:
            return len(train)

        def __getitem__(self, index: int) -> tuple[torch.Tensor, ...]:
            return train[index % period]

    class Bag(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(samples.LETTERS, 24, padding_idx=0)
            self.convolution = nn.Conv1d(24, 48, 3, padding=1)
            self.head = nn.Linear(48, len(samples.SCRIPTS))

        def forward(self, codes: torch.Tensor) -> torch.Tensor:
            return self.head(self.convolution(self.embedding(codes).transpose(1, 2)).relu().amax(2))

    model = Bag()
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 200, eta_min=2e-4)
    session = watch(model, optimizer)
    for _ in range(10):
        for codes, scripts in DataLoader(Names(), batch_size=32, shuffle=True):
            optimizer.zero_grad()
            logits = model(codes)
            loss = functional.cross_entropy(logits, scripts)
            loss.backward()
            session.step(loss, inputs=codes, outputs=logits, targets=scripts)
            optimizer.step()
            scheduler.step()
    return samples.accuracy(predicted(model, test.tensors[0]), test.tensors[1])
