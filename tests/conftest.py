"""What holds for the tests of every room."""

from hypothesis import HealthCheck, settings

# The same examples each time, however busy the machine is: what fails once fails again, and can be looked at.
# For others: `--hypothesis-profile=default`.
settings.register_profile(
    "steady", derandomize=True, database=None, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("steady")
