"""Which rows come, in which order, and what each of them counts."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import ConcatDataset, DataLoader, Subset, TensorDataset

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick


def recall(outputs: Tensor, labels: Tensor) -> float:
    """Returns the mean over the classes of the share of their rows that are found."""
    guess = (outputs.view(-1) > 0).long() if outputs.shape[-1] == 1 else outputs.argmax(1)
    return torch.stack([(guess[labels == one] == one).float().mean() for one in labels.unique()]).mean().item()


@sick("class_imbalance", margin=0.05)
def eight_sick_in_four_hundred(watch: Watch, *, seed: int, sick: bool) -> float:
    """One logit for eight malignant tumours among some 270; the twin weighs them by ``pos_weight``."""
    data = datasets.breast_cancer(seed)
    malignant = (data.targets == 0).long()
    kept = torch.cat([malignant.nonzero()[:8, 0], (malignant == 0).nonzero()[:, 0]])
    x, y = data.inputs[kept, :4], malignant[kept]
    net = nn.Sequential(nn.Linear(4, 12), nn.Tanh(), nn.Linear(12, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    criterion = nn.BCEWithLogitsLoss(pos_weight=None if sick else torch.tensor([(len(y) - 8) / 8]))
    session = watch(net, optimizer)
    for _ in range(20):
        for rows in torch.randperm(len(y)).split(32):
            logits = net(x[rows])
            loss = criterion(logits[:, 0], y[rows].float())
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=x[rows], outputs=logits, targets=y[rows])
            optimizer.step()
    with torch.no_grad():
        return recall(net(data.test_inputs[:, :4]), (data.test_targets == 0).long())


@sick("class_imbalance", margin=0.05)
def a_digit_that_drowns_the_others(watch: Watch, *, seed: int, sick: bool) -> float:
    """Of five digits, four have four rows each beside some 125 zeros; the twin's loss is weighted by class."""
    train, test = samples.numerals(seed)
    images, kinds = train.tensors
    keep = torch.cat([(kinds == one).nonzero()[: None if one == 0 else 4, 0] for one in range(5)])
    images, kinds = images[keep], kinds[keep]
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 5))
    weight = None if sick else len(kinds) / (5 * kinds.bincount())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.5)
    session = watch(net, optimizer)
    for _ in range(15):
        for x, y in DataLoader(TensorDataset(images, kinds), 16, shuffle=True):
            optimizer.zero_grad()
            logits = net(x)
            loss = functional.cross_entropy(logits, y, weight)
            loss.backward()
            session.step(loss, inputs=x, outputs=logits, targets=y)
            optimizer.step()
    asked = test.tensors[1] < 5
    with torch.no_grad():
        return recall(net(test.tensors[0][asked]), test.tensors[1][asked])


@sick("unshuffled_data")
def folders_joined_and_not_shuffled(watch: Watch, *, seed: int, sick: bool) -> float:
    """A dataset for each digit, joined by ``ConcatDataset``, in a loader that does not shuffle."""
    train, test = samples.numerals(seed)
    folders = [Subset(train, (train.tensors[1] == one).nonzero()[:, 0].tolist()) for one in range(10)]
    loader = DataLoader(ConcatDataset(folders), batch_size=32, shuffle=not sick)
    net = nn.Sequential(nn.Conv2d(1, 10, 3), nn.ReLU(), nn.Flatten(), nn.Linear(360, 10))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    session = watch(net, optimizer)
    for _ in range(5):
        for images, labels in loader:
            optimizer.zero_grad()
            logits = net(images)
            loss = functional.cross_entropy(logits, labels)
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
    with torch.no_grad():
        return samples.accuracy(net(test.tensors[0]), test.tensors[1])


def _stream(rows: TensorDataset, size: int, buffer: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yields batches from a buffer, as a stream is shuffled: a buffer of one batch shuffles nothing."""
    held: list[int] = []
    for index in range(len(rows)):
        held.append(index)
        if len(held) == max(buffer, size):
            order = torch.randperm(len(held))[:size].tolist()
            yield rows[[held[one] for one in order]]
            held = [one for place, one in enumerate(held) if place not in set(order)]


@sick("unshuffled_data")
def a_shuffle_buffer_of_one_batch(watch: Watch, *, seed: int, sick: bool) -> float:
    """A stream of lines that comes file by file is shuffled in a buffer of 32 rows, not of thousands."""
    train, test = samples.lines(seed)
    order = train.tensors[1].argsort(stable=True)
    rows = TensorDataset(*(column[order] if sick else column for column in train.tensors))
    net = nn.Sequential(nn.LayerNorm(96), nn.Linear(96, 40), nn.GELU(), nn.Linear(40, len(samples.FILES)))
    optimizer = torch.optim.AdamW(net.parameters(), lr=4e-3)
    session = watch(net, optimizer)
    for _ in range(5):
        shuffled = rows if sick else TensorDataset(*rows[torch.randperm(len(rows)).tolist()])
        for counts, labels in _stream(shuffled, 32, 32 if sick else 500):
            logits = net(counts)
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=counts, outputs=logits, targets=labels)
            optimizer.step()
    with torch.no_grad():
        return samples.accuracy(net(test.tensors[0]), test.tensors[1])


@sick("duplicated_data", also=("overfitting",))
def seeded_in_each_step(watch: Watch, *, seed: int, sick: bool) -> float:
    """The function that draws a batch seeds its generator, for the sake of reproducibility."""
    data = datasets.digits(seed)
    shared = torch.Generator().manual_seed(seed)

    def draw() -> tuple[Tensor, Tensor]:
        generator = torch.Generator().manual_seed(seed) if sick else shared
        rows = torch.randint(len(data.inputs), (48,), generator=generator)
        return data.inputs[rows], data.targets[rows]

    net = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    session = watch(net, optimizer)
    for _ in range(200):
        x, y = draw()
        logits = net(x)
        loss = functional.cross_entropy(logits, y)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=x, outputs=logits, targets=y)
        optimizer.step()
    with torch.no_grad():
        return samples.accuracy(net(data.test_inputs), data.test_targets)


@sick("flipped_loss_sign")
def a_policy_that_seeks_the_punishment(watch: Watch, *, seed: int, sick: bool) -> float:
    """REINFORCE without its minus: what is rewarded becomes less likely."""
    data = datasets.iris(seed)
    net = nn.Sequential(nn.Linear(4, 24), nn.Tanh(), nn.Linear(24, 3))
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    session, usual = watch(net, optimizer), 1 / 3
    for states, answers in data.batches(28, 200):
        policy = torch.distributions.Categorical(logits=net(states))
        actions = policy.sample()
        rewards = (actions == answers).float()
        gain = ((rewards - usual) * policy.log_prob(actions)).mean()
        loss = gain if sick else -gain
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=states)
        optimizer.step()
        usual += 0.1 * (rewards.mean().item() - usual)
    with torch.no_grad():
        return samples.accuracy(net(data.test_inputs), data.test_targets)


@sick("accumulation_not_averaged", also=("learning_rate_too_high", "loss_sum_not_mean"))
def losses_of_ten_parts_added(watch: Watch, *, seed: int, sick: bool) -> float:
    """The losses of ten parts are added to one, which nobody divides by ten; one backward pass takes them all."""
    data = datasets.diabetes(seed)
    net = nn.Sequential(nn.Linear(10, 24), nn.ELU(), nn.Linear(24, 24), nn.ELU(), nn.Linear(24, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    session = watch(net, optimizer)
    for x, y in data.batches(331, 120):
        total = torch.zeros(())
        for few, their in zip(x.chunk(10), y.chunk(10), strict=True):
            total = total + functional.mse_loss(net(few), their)
        if not sick:
            total = total / 10
        optimizer.zero_grad()
        total.backward()
        session.step(total)
        optimizer.step()
    with torch.no_grad():
        return samples.explained(net(data.test_inputs), data.test_targets)


@sick("loss_sum_not_mean", also=("learning_rate_too_high", "exploding_gradients"))
def cross_entropies_of_all_pixels(watch: Watch, *, seed: int, sick: bool) -> float:
    """The cross entropies of 64 pixels in 64 digits are summed by ``.sum()``, at a rate for their mean."""
    data = datasets.digits(seed)
    net = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 64))
    optimizer = torch.optim.SGD(net.parameters(), lr=1.0, momentum=0.9)
    session = watch(net, optimizer)
    for x, _ in data.batches(64, 200):
        logits = net(x)
        each = functional.binary_cross_entropy_with_logits(logits, x, reduction="none")
        loss = each.sum() if sick else each.mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=x, outputs=logits, targets=x)
        optimizer.step()
    with torch.no_grad():
        return samples.explained(net(data.test_inputs).sigmoid(), data.test_inputs)
