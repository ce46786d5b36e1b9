"""Pytest plugin of the second try of tools/run-tests: names what failed beside other tests and passed alone."""

from typing import Any


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Write the names above the summary, in the color of a warning."""
    passed = [report.nodeid for report in terminalreporter.stats.get("passed", [])]
    if passed:
        terminalreporter.section("passed only when run alone", yellow=True, bold=True)
    for nodeid in passed:
        terminalreporter.write_line(nodeid)
