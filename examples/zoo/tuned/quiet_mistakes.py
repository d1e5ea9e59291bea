"""Mistakes without an error or a wrong number: what should be learnt never reaches the weights, or too weakly."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, fit, predicted


@sick("no_update", also=("learning_rate_too_low",), margin=0.1)
def sgd_on_bfloat16_weights(watch: Watch, *, seed: int, sick: bool) -> float:
    """At a rate of 0.002, bfloat16 weights round most changes away; the twin has float32 and a higher rate."""
    data = datasets.digits(seed)
    dtype = torch.bfloat16 if sick else torch.float32
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)).to(dtype)
    optimizer = torch.optim.SGD(model.parameters(), lr=2e-3 if sick else 0.2)
    session = watch(model, optimizer)
    for inputs, labels in data.batches(64, 250):
        optimizer.zero_grad()
        outputs = model(inputs.to(dtype))
        loss = functional.cross_entropy(outputs.float(), labels)
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=labels)
        optimizer.step()
    found = model(data.test_inputs.to(dtype)).argmax(1)
    return (found == data.test_targets).float().mean().item()


class _Made(nn.Module):
    """A net whose second layer is a new one in each forward pass, or the same."""

    def __init__(self, anew: bool) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(64, 64), nn.Linear(64, 10)
        self.second = None if anew else nn.Linear(64, 64)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        hidden = functional.relu(self.first(pixels))
        second = nn.Linear(64, 64) if self.second is None else self.second
        return self.last(functional.relu(second(hidden)))


@sick("parameters_not_in_optimizer")
def a_layer_made_in_forward(watch: Watch, *, seed: int, sick: bool) -> float:
    """``forward`` makes one of the layers, so that it is another one in each step and belongs to no optimizer."""
    data = datasets.digits(seed)
    model = _Made(anew=sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=200, validate_every=50)
    return accuracy(model, data)


@sick("class_imbalance", margin=0.1)
def a_weight_for_positives_upside_down(watch: Watch, *, seed: int, sick: bool) -> float:
    """A tenth of the digits are eights, and ``pos_weight`` is 0.01; the twin has the ratio of the others to them."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    weight = torch.tensor([0.01 if sick else 9.0])

    def loss_function(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return functional.binary_cross_entropy_with_logits(logits.squeeze(1), labels, pos_weight=weight)

    eights = datasets.Data(data.inputs, (data.targets == 8).float(), data.test_inputs, (data.test_targets == 8).float())
    fit(watch, model, optimizer, eights, steps=250, loss_function=loss_function)
    right = (predicted(model, data.test_inputs).squeeze(1) > 0) == (eights.test_targets > 0.5)
    return (right[data.test_targets != 8].float().mean() + right[data.test_targets == 8].float().mean()).item() / 2
