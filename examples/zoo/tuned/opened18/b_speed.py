"""A net for skewed sizes of tumours, whose gradients need a limit."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

from examples.zoo import samples
from examples.zoo.cases import Watch, sick


@sick("clipping_ineffective", also=("exploding_gradients", "learning_rate_too_high"), margin=0.1)
def a_clamp_whose_result_is_lost(watch: Watch, *, seed: int, sick: bool) -> float:
    """``p.grad.clamp(-0.1, 0.1)`` returns new gradients, which nobody keeps; the twin's ``clamp_`` works in place."""
    train, test = samples.standardised(samples.tumours(seed), 0, 1)
    model = nn.Sequential(nn.Linear(10, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.8)
    session = watch(model, optimizer)
    for _ in range(15):
        for inputs, sizes in DataLoader(train, 32, shuffle=True):
            targets = sizes + 0.1 * sizes.pow(3)
            outputs = model(inputs)
            loss = functional.mse_loss(outputs, targets, reduction="none").sum(1).mean()
            optimizer.zero_grad()
            loss.backward()
            for weight in model.parameters():
                assert weight.grad is not None
                if sick:
                    weight.grad.clamp(-0.1, 0.1)
                else:
                    weight.grad.clamp_(-0.1, 0.1)
            session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
            optimizer.step()
    with torch.no_grad():
        outputs = model(test.tensors[0])
    size = test.tensors[1]
    return samples.explained(outputs, size + 0.1 * size.pow(3))
