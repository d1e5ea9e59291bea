"""Phases of steps are medians of those that were seen as a whole."""

from debuggers.ranks.step_phases import StepPhases


def test_steps_of_which_a_phase_is_missing_count_for_none():
    phases = StepPhases()
    phases.step((1.0, 2.0, 3.0))  # no step ended before it
    phases.step_ends()
    phases.step((None, 2.0, 3.0))
    assert phases.take() == []


def test_phases_are_in_milliseconds_and_taken_once():
    phases = StepPhases()
    phases.step_ends()
    ended_s = phases._ended_s
    phases.step((ended_s + 1, ended_s + 3, ended_s + 6))
    assert [round(value) for value in phases.take()] == [1000, 2000, 3000]
    assert phases.take() == []


def test_a_pause_is_no_part_of_a_step():
    phases = StepPhases()
    phases.step_ends()
    phases.forget()
    phases.step((1e9, 2e9, 3e9))
    assert phases.take() == []
