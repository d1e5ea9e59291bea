"""A task of the zoo, from its training to its outcome."""

import stepscope
from examples.zoo.cases import cases
from examples.zoo.run import Task, run_task, tasks_of


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
