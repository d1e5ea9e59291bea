"""What nobody set up logging for is printed with the project's name, and else it is left to who did."""

import subprocess
import sys

import pytest

LOG = "logging.getLogger('{package}.part').warning('%d things are wrong', 3)"
PACKAGES = ("tracker_adapters", "debuggers", "stability", "stepscope")


def printed(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stderr.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("setup, expected", [
    ("", "stepscope: 3 things are wrong"),
    ("logging.basicConfig(format='%(name)s|%(message)s')", "{package}.part|3 things are wrong"),
    ("logging.lastResort = None", None),
    ("logging.getLogger('{package}').addHandler(logging.NullHandler())", None),
])  # fmt: skip
def test_a_line_is_printed_once_and_says_whose_it_is(setup, expected):
    code = ["import logging", *(f"import {package}" for package in PACKAGES)]
    for package in PACKAGES:
        code += [setup.format(package=package), LOG.format(package=package)]

    lines = printed("\n".join(code))
    assert lines == ([] if expected is None else [expected.format(package=package) for package in PACKAGES])


def test_what_is_below_a_warning_stays_silent():
    code = "import logging, stepscope; logging.getLogger('stepscope.part').info('nothing of note')"
    assert printed(code) == []


def test_what_a_terminal_would_obey_is_shown_and_not_done():
    code = (
        "import logging, stepscope\n"
        "try:\n    raise ValueError('\\x1b[31mred')\n"
        "except ValueError as error:\n    logging.getLogger('stepscope.part').exception('failed: %s', error)"
    )
    lines = printed(code)
    assert (lines[0], lines[-1]) == (r"stepscope: failed: \x1b[31mred", r"ValueError: \x1b[31mred")
    assert lines[1].startswith("Traceback")
