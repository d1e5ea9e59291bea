"""What bounds the values that a loss compares: an activation, perhaps times constants, or a cosine similarity."""

import pytest
import torch
from torch.nn import functional

from debuggers.observed_training.graphs.activations import bounded_by

VECTORS = torch.randn(5, 4, generator=torch.Generator().manual_seed(0)).requires_grad_()
OTHERS = torch.randn(5, 4, generator=torch.Generator().manual_seed(1)).requires_grad_()


@pytest.mark.parametrize(
    ("outputs", "name", "times"),
    [
        pytest.param(lambda x, y: x.sigmoid(), "sigmoid", 1.0, id="plain"),
        pytest.param(lambda x, y: 4 * x.sigmoid().squeeze() / 8, "sigmoid", 0.5, id="times constants"),
        pytest.param(lambda x, y: -2 * x.tanh(), "tanh", -2.0, id="turned over"),
        pytest.param(lambda x, y: x.tanh().mean(1), "tanh", 1.0, id="their mean"),
        pytest.param(lambda x, y: functional.hardtanh(x, -2.0, 2.0), "hardtanh", 2.0, id="between other bounds"),
        pytest.param(lambda x, y: x.clamp(0.0, 5.0), "hardsigmoid", 5.0, id="clamped"),
        pytest.param(lambda x, y: x.clamp(1.0, 5.0), "", 0.0, id="clamped elsewhere"),
        pytest.param(lambda x, y: x.tanh() + 3, "", 0.0, id="shifted"),
        pytest.param(lambda x, y: x.tanh().sum(1), "", 0.0, id="their sum"),
        pytest.param(lambda x, y: x.tanh() * y, "", 0.0, id="times what is trained"),
        pytest.param(functional.cosine_similarity, "cosine", 1.0, id="torch's cosine"),
        pytest.param(
            lambda x, y: 3 * (functional.normalize(x, dim=-1) * functional.normalize(y, dim=-1)).sum(-1),
            "cosine", 3.0, id="a cosine times three",
        ),
        pytest.param(lambda x, y: (functional.normalize(x, dim=-1) * y).sum(-1), "", 0.0, id="one of any length"),
        pytest.param(
            lambda x, y: (functional.normalize(x, dim=0) * functional.normalize(y, dim=0)).sum(-1),
            "", 0.0, id="columns",
        ),
    ],
)  # fmt: skip
def test_the_bound_is_found_behind_constant_factors(outputs, name, times):
    assert bounded_by(outputs(VECTORS * 1, OTHERS * 1).grad_fn) == (name, pytest.approx(times))
