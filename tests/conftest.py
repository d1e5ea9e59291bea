"""What the fast tests draw at random."""

from hypothesis import HealthCheck, settings

# How fast a machine is decides no test, nor does chance: what a test draws depends on the test alone. With
# --hypothesis-profile=default it draws anew each time, to search for more.
settings.register_profile("repeatable", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("repeatable")
