"""The command compares two runs, and writes one run's page."""

import pytest
from click.testing import CliRunner

import stepscope
from stepscope.cli import main
from stepscope.diagnosing.comparison_lines import apart


@pytest.fixture
def runs(tmp_path):
    paths = []
    for name, change in (("a", 0.0), ("b", 5.0)):
        with stepscope.open_run(tmp_path / name, sinks=[]) as run:
            for step in range(30):
                run.scalar("loss", 1 / (step + 1) + (change if step >= 12 else 0), step=step)
                run.scalar("total_norm/gradients", 1.0, step=step)
        paths.append(str(tmp_path / name))
    return paths


def test_two_runs_are_compared(runs):
    told = CliRunner().invoke(main, ["report", *runs]).output

    assert "Of 2 signals 1 differ; first:" in told
    assert "loss: since step 12 (0.07692 against 5.077)" in told
    assert "No setting that is known differs." in told


def test_a_page_of_a_run_without_a_report_is_written(runs, tmp_path):
    target = tmp_path / "page.html"

    done = CliRunner().invoke(main, ["report", runs[1], "--html", str(target)])

    assert done.exit_code == 0, done.output
    page = target.read_text()
    assert "<h1>b</h1>" in page and 'aria-label="loss' in page


def test_a_page_shows_one_run(runs, tmp_path):
    done = CliRunner().invoke(main, ["report", *runs, "--html", str(tmp_path / "page.html")])

    assert done.exit_code != 0 and "--html takes one run, got 2" in done.output


def test_numbers_that_differ_are_shown_with_as_many_digits_as_tell_them_apart():
    assert apart(2.289, 56.5) == "2.289 against 56.5"
    assert apart(1.0, 0.99999994) == "1 against 0.9999999"
    assert apart(1.0, float("nan")) == "1 against nan"
