"""The judgement of ``make valgrind``: it finds what is new, and leaves out what the control run has."""

import kernel_memory

CONTROL = """
==1== Use of uninitialised value of size 8
==1==    at 0x4A: Py_INCREF (object.h:502)
==1==    by 0x4B: _PyEval_Vector (ceval.c:6434)
==1==    by 0x4C: one (a.c:1)
==1== Invalid read of size 8
==1==    at 0x4D: strncmp (strcmp-sse2.S:162)
==1==    by 0x4E: is_dst (dl-load.c:216)
"""
OURS = """
==1== Invalid read of size 4
==1==    at 0x4F: ???
==1==    by 0x50: ???
"""
ELSEWHERE = """
==1== Use of uninitialised value of size 8
==1==    at 0x51: ???
==1==    by 0x4B: _PyEval_Vector (ceval.c:6434)
"""
LOADER = CONTROL[CONTROL.index("==1== Invalid") :]
CAUGHT = {"freed memory": OURS, "behind the end": OURS, "written behind the end": OURS.replace("read", "write")}


def judged(**parts):
    given = {"control": CONTROL, "measured": "", **CAUGHT} | {
        name.replace("_", " "): part for name, part in parts.items()
    }
    log, marks = "", {}
    for phase in kernel_memory.PHASES:
        log += given[phase]
        marks[phase] = len(log.encode())
    return kernel_memory._judge(log.encode(), marks)


def test_noise_of_the_control_run_is_left_out():
    again = CONTROL[: CONTROL.index("==1== Invalid")].replace("one (a.c:1)", "another (b.c:2)")
    assert judged() == judged(measured=again) == 0


def test_whatever_is_new_is_a_finding():
    assert [judged(measured=part) for part in (OURS, ELSEWHERE, LOADER)] == [1, 1, 1]


def test_a_planted_defect_that_is_not_found_is_told():
    assert [judged(**{name.replace(" ", "_"): ELSEWHERE}) for name in CAUGHT] == [1, 1, 1]
