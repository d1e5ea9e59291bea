"""What a cross entropy was told beside outputs and targets: how much blurs its targets and probabilities."""

import pytest
import torch
from torch.nn import functional

from debuggers.observed_training.graphs.loss_view import loss_view, output_nodes
from debuggers.observed_training.known_losses import KnownLosses

ROWS, CLASSES = 6, 3
CLASS = torch.tensor([0, 2, 1, 1, 0, 2])


def _view(loss_of):
    outputs = torch.nn.Linear(4, CLASSES)(torch.ones(ROWS, 4))
    return loss_view(loss_of(outputs), output_nodes([outputs]))


def _entropy(outputs):
    return -(outputs.softmax(1) * outputs.log_softmax(1)).sum(1).mean()


def _smoothed(outputs, kept, spread):
    """As losses of tutorials do."""
    logarithms = outputs.log_softmax(1)
    right = -logarithms.gather(1, CLASS[:, None]).squeeze(1)
    return (kept * right + spread * -logarithms.mean(1)).mean()


@pytest.mark.parametrize(
    ("loss_of", "smoothing"),
    [
        (lambda o: functional.cross_entropy(o, CLASS, label_smoothing=0.3), 0.3),
        (lambda o: functional.cross_entropy(o, CLASS, label_smoothing=0.3) / 4, 0.3),
        (lambda o: functional.cross_entropy(o, CLASS, label_smoothing=0.3, ignore_index=1), 0.3),
        (lambda o: functional.cross_entropy(o, CLASS, label_smoothing=1.0), 1.0),  # no class is right
        (lambda o: functional.cross_entropy(o, CLASS), 0.0),
        (lambda o: _smoothed(o, 0.6, 0.4), 0.4),
        (lambda o: _smoothed(o, 0.6, 0.2), 0.0),  # it does not add up
        (lambda o: 0.6 * functional.cross_entropy(o, CLASS) + 0.4 * o.logsumexp(1).square().mean(), 0.0),
        (lambda o: 0.6 * functional.cross_entropy(o, CLASS) + 0.4 * o.mean(), 0.0),
    ],
)
def test_label_smoothing_is_known_where_its_parts_add_up(loss_of, smoothing):
    assert _view(loss_of).facts.smoothing == pytest.approx(smoothing)


@pytest.mark.parametrize(
    ("loss_of", "penalty"),
    [
        (lambda o: functional.cross_entropy(o, CLASS) - 0.3 * _entropy(o), 0.3),
        (lambda o: (functional.cross_entropy(o, CLASS) - 0.3 * _entropy(o)) / 4, 0.3),
        (lambda o: functional.nll_loss(p := o.log_softmax(1), CLASS) + 2 * (p.exp() * p).sum(1).mean(), 2.0),
        (
            lambda o: (
                functional.cross_entropy(o, CLASS) - 0.3 * torch.distributions.Categorical(logits=o).entropy().mean()
            ),
            0.3,
        ),
        (lambda o: functional.cross_entropy(o, CLASS) + 0.3 * _entropy(o), 0.0),  # it is minimised
        (lambda o: functional.cross_entropy(o, CLASS) - 0.3 * _entropy(2 * o), 0.0),
        (lambda o: functional.cross_entropy(o, CLASS) - 0.3 * _entropy(o) * ROWS / CLASSES, 0.6),
        (lambda o: functional.cross_entropy(o, CLASS) + (o.softmax(1) * o.log_softmax(1)).mean(), 0.0),  # of elements
        (lambda o: functional.cross_entropy(o, CLASS), 0.0),
    ],
)
def test_a_confidence_penalty_is_known_of_the_probabilities_that_are_compared(loss_of, penalty):
    assert _view(loss_of).facts.confidence_penalty == pytest.approx(penalty)


@pytest.mark.parametrize(("penalties", "known"), [((0.3, 0.3, 0.3), 0.3), ((0.5, 0.3, 0.1), 0.0), ((0.0, 0.3), 0.0)])
def test_a_penalty_that_a_schedule_changes_is_not_the_usual_one(penalties, known):
    losses = KnownLosses()
    for penalty in penalties:
        view = _view(lambda o, times=penalty: functional.cross_entropy(o, CLASS) - times * _entropy(o))
        losses.see(view, None, 1.0)
    assert losses.usual is not None
    assert losses.usual.confidence_penalty == pytest.approx(known)
