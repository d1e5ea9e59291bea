"""A last layer whose outputs are on another scale than what they are compared with."""

import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn, optim
from torch.utils.data import TensorDataset

from examples.zoo import samples
from examples.zoo.cases import Watch, sick
from examples.zoo.tuned.opened9.ladle_tools import cooked, ladled, layers, share


class Shares(nn.Module):
    """Divides a whole among eight columns."""

    def __init__(self, whole: float) -> None:
        super().__init__()
        self.net, self.whole = layers(32, 48, 8), whole

    def forward(self, x: Tensor) -> Tensor:
        return self.whole * self.net(x).softmax(1)


@sick("target_out_of_range", also=("wrong_output_or_loss",))
def percentages_from_a_softmax(watch: Watch, *, seed: int, sick: bool) -> float:
    """How the ink of a lower half is shared among its columns, in percent, by a softmax that adds up to one."""
    train, test = samples.halves(seed)

    def shared(part: TensorDataset) -> TensorDataset:
        ink = part.tensors[1].view(-1, 4, 8).sum(1) + 0.01
        return TensorDataset(part.tensors[0], 100 * ink / ink.sum(1, keepdim=True))

    train, test = samples.standardised((shared(train), shared(test)), 0)
    model = Shares(1.0 if sick else 100.0)
    optimizer = optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.02)
    cooked(watch, model, optimizer, ladled(train, 32, 220), F.mse_loss, steps=220)
    return share(model, test)
