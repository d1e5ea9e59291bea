"""A task of the zoo, from its training to its outcome."""

import pytest

import stepscope
from examples.zoo.cases import cases
from examples.zoo.run import Task, main, run_task, tasks_of


def test_a_case_has_a_task_for_each_variant_mode_and_seed():
    chosen = [case for case in cases("tuned") if case.name == "mechanics/zero_grad_forgotten"]

    tasks = tasks_of(chosen, ["unchanged", "told"], seeds=3)

    assert len(set(tasks)) == len(tasks) == 2 * 2 * 3


def test_a_task_returns_the_causes_and_keeps_the_run(tmp_path):
    task = Task("loss_and_head/squares_added_up", "tuned", "sick", "told", 0, str(tmp_path))

    outcome = run_task(task)

    assert (outcome.label, outcome.error) == ("loss_sum_not_mean", "")
    assert outcome.causes
    assert stepscope.read_run(next(tmp_path.iterdir())).scalars("loss")


@pytest.mark.skipif(bool(cases("held_out")), reason="a half is held out")
def test_a_part_without_a_case_says_how_a_half_is_made(capsys):
    with pytest.raises(SystemExit):
        main(["--part", "held_out"])

    assert "the part held_out has no case: examples/zoo/README.md" in capsys.readouterr().err
