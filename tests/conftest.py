"""What all tests share."""

import os

from hypothesis import HealthCheck, settings

# Which code measures must not depend on when a process beside the tests has compiled it.
os.environ.setdefault("STEPSCOPE_COMPILE", "wait")

# Beside other workers a test that takes every core waits for them, and they for it.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

# How fast a machine is decides no test, nor does chance: what a test draws depends on the test alone. With
# --hypothesis-profile=default it draws anew each time, to search for more.
settings.register_profile("repeatable", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("repeatable")
