"""With everything that there is looking on at once, a training has the same bits as alone, and nothing fails inside."""

import random

import numpy as np
import pytest
import torch
import unusual_trainings  # noqa: F401 (enters them)
from everything_on import Everything, Nobody
from many_trainings import TRAININGS

import stepscope

pytestmark = pytest.mark.slow


def run(name, observer):
    torch.manual_seed(3), np.random.seed(3), random.seed(3)
    TRAININGS[name](observer)
    return observer


@pytest.mark.parametrize("name", TRAININGS)
def test_the_same_bits(name, tmp_path):
    alone, watched = run(name, Nobody()), run(name, Everything(tmp_path))

    for number, (one, other) in enumerate(zip(alone.bits, watched.bits, strict=True)):
        assert one == other, f"step {number} differs"
    assert watched.called or name == "functional", "no hook has acted"
    (report,) = watched.reports
    assert not report.failures
    with stepscope.read_run(watched.run.path) as record:
        failed = [alert for alert in record.alerts() if alert.name in ("session_failure", "debugger_failed")]
        assert not failed
