"""A short run of ``make sanitize``."""

import shutil

import kernel_fuzzing
import pytest

pytestmark = pytest.mark.slow


@pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc")
def test_sanitizers_find_a_planted_defect_and_nothing_else(capsys):
    assert kernel_fuzzing.main(40) == 0, capsys.readouterr().out
    assert "the planted defect was found, and nothing in {'tensors': " in capsys.readouterr().out
