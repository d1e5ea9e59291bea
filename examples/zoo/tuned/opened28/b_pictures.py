"""Classes of pictures: residual nets, heads, file names, and modes."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, WeightedRandomSampler

from examples.zoo import datasets
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import predicted
from examples.zoo.tuned.opened28.b_stock import classes


def _digits(seed: int) -> Data:
    data = datasets.digits(seed, images=True)
    std, mean = torch.std_mean(data.inputs)
    return Data((data.inputs - mean) / std, data.targets, (data.test_inputs - mean) / std, data.test_targets)


class _Block(nn.Module):
    """Two convolutions beside a way around them, with or without batch norms."""

    def __init__(self, width: int, *, norms: bool) -> None:
        super().__init__()
        self.first = nn.Conv2d(width, width, 3, padding=1)
        self.second = nn.Conv2d(width, width, 3, padding=1)
        self.norms = nn.ModuleList(nn.BatchNorm2d(width) if norms else nn.Identity() for _ in range(2))
        for layer in (self.first, self.second):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")

    def forward(self, maps: torch.Tensor) -> torch.Tensor:
        inner = functional.relu(self.norms[0](self.first(maps)))
        return functional.relu(maps + self.norms[1](self.second(inner)))


@sick("exploding_gradients", also=("poor_initialization", "learning_rate_too_high"), margin=0.1)
def a_residual_net_without_its_norms(watch: Watch, *, seed: int, sick: bool) -> float:
    """Batch norms are removed from 14 residual blocks to save time, so that sums grow; the twin keeps them."""
    blocks = [_Block(8, norms=not sick) for _ in range(14)]
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3, stride=2, padding=1), *blocks, nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(32, 10)
    )
    data = _digits(seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    return classes(watch, model, optimizer, data, data.batches(64, 85))


@sick("dead_units", also=("wrong_output_or_loss", "target_out_of_range"), margin=0.05)
def relu_after_the_last_layer_too(watch: Watch, *, seed: int, sick: bool) -> float:
    """``F.relu`` is around each layer, and so around the scores, some of which stay 0; the twin's scores are free."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(1, 12, 3)
            self.fc1, self.fc2, self.fc3 = nn.Linear(108, 64), nn.Linear(64, 32), nn.Linear(32, 10)

        def forward(self, pictures: torch.Tensor) -> torch.Tensor:
            maps = functional.max_pool2d(functional.relu(self.conv(pictures)), 2).flatten(1)
            scores = self.fc3(functional.relu(self.fc2(functional.relu(self.fc1(maps)))))
            return functional.relu(scores) if sick else scores

    data, model = _digits(seed), Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    return classes(watch, model, optimizer, data, data.batches(64, 220))


class _Files(Dataset):
    """Pictures by name, as ``os.listdir`` gives them, and labels from a table in the order of their numbers."""

    def __init__(self, data: Data, *, names: list[str]) -> None:
        self.pictures = {f"{number}.png": picture for number, picture in enumerate(data.inputs)}
        self.names, self.labels = names, data.targets.tolist()

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.pictures[self.names[index]], self.labels[index]


@sick("labels_unrelated", margin=0.3)
def names_of_files_sorted_as_text(watch: Watch, *, seed: int, sick: bool) -> float:
    """``sorted(listdir())`` puts 10.png before 2.png, but labels are in order of numbers; the twin sorts by number."""
    data = _digits(seed)
    names = sorted((f"{number}.png" for number in range(len(data.inputs))), key=None if sick else lambda n: int(n[:-4]))
    loader = DataLoader(_Files(data, names=names), batch_size=64, shuffle=True)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(256, 10),
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    return classes(watch, model, optimizer, data, (batch for _ in range(8) for batch in loader))


@sick("wrong_mode", margin=0.03)
def frozen_norms_of_a_net_from_scratch(watch: Watch, *, seed: int, sick: bool) -> float:
    """A detector's ``train`` keeps batch norms in eval mode, in a net without a pretraining; the twin's does not."""

    class Net(nn.Sequential):
        def train(self, mode: bool = True) -> "Net":
            super().train(mode)
            for module in self.modules():
                if sick and isinstance(module, nn.BatchNorm2d):
                    module.eval()
            return self

    layers: list[nn.Module] = []
    for before in (1, 12, 12, 12, 12, 12):
        layers += [nn.Conv2d(before, 12, 3, padding=1, bias=False), nn.BatchNorm2d(12), nn.ReLU()]
    model = Net(*layers, nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(48, 10))
    data = _digits(seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    return classes(watch, model, optimizer, data, data.batches(64, 140))


@sick("schedule_collapsed", also=("learning_rate_too_low", "stopped_too_early"), margin=0.05)
def an_exponential_decay_stepped_by_batch(watch: Watch, *, seed: int, sick: bool) -> float:
    """``ExponentialLR(gamma=0.8)`` is meant for epochs, and stepped after each batch; the twin's gamma fits batches."""
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.GroupNorm(4, 16),
        nn.ReLU(),
        nn.Conv2d(16, 16, 3, stride=2, padding=1),
        nn.GroupNorm(4, 16),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(256, 10),
    )
    data = _digits(seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, nesterov=True)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.8 if sick else 0.8 ** (1 / 22))
    return classes(watch, model, optimizer, data, data.batches(64, 200), scheduler=scheduler)


@sick("class_imbalance", margin=0.04)
def a_long_tail_of_classes(watch: Watch, *, seed: int, sick: bool) -> float:
    """Each class has half as many pictures as the one before; the twin draws by weight. Quality: mean recall."""
    data = _digits(seed)
    rows = torch.cat([(data.targets == k).nonzero().flatten()[: max(4, 128 >> k)] for k in range(10)])
    pictures, labels = data.inputs[rows], data.targets[rows]
    weights = 1 / labels.bincount()[labels].float()
    sampler = WeightedRandomSampler(torch.ones(len(rows)) if sick else weights, 64 * 120)
    loader = DataLoader(list(zip(pictures, labels, strict=True)), batch_size=64, sampler=sampler)
    model = nn.Sequential(nn.Conv2d(1, 16, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(144, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, weight_decay=1e-4)
    classes(watch, model, optimizer, data, iter(loader))
    guessed = predicted(model, data.test_inputs).argmax(-1)
    return torch.stack([(guessed == k)[data.test_targets == k].float().mean() for k in range(10)]).mean().item()
