"""Random trainings, watched in random ways: the same bits as alone, nothing left behind, all told and recorded."""

import threading
import warnings

import psutil
import pytest
import torch
from composed_observer import Observer
from composed_training import Training
from composition_checks import check_record, check_reports, check_training
from compositions import draw

pytestmark = pytest.mark.slow
CASES = 160


@pytest.mark.parametrize("seed", range(CASES))
def test_a_composition(seed, tmp_path):
    case = draw(seed)
    print(case)
    threads, children = set(threading.enumerate()), psutil.Process().children()
    alone = Training(case, None)
    alone.run()
    torch._dynamo.reset()
    observer = Observer(case, tmp_path)
    watched = Training(case, observer)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        if case.new_head:  # the old one stays in the optimizer
            warnings.filterwarnings("ignore", message="2 of the optimizer's .* parameters are not in")
        watched.run()
    torch._dynamo.reset()

    check_training(alone, watched)
    check_reports(case, watched, observer)
    if case.run:
        check_record(case, watched, observer)
    later = [thread for thread in threading.enumerate() if thread not in threads]
    for thread in later:  # that of a data loader's queue ends a moment after its loader
        thread.join(10)
    left = [thread.name for thread in later if thread.is_alive()]
    assert (left, [one for one in psutil.Process().children() if one not in children]) == ([], [])
