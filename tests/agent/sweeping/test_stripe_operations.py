"""Messages of an incomplete cleanup."""

from agent.sweeping.sweep_run import CleanupResult

FOREIGN = "/dev/b contains ext4 'data' at byte 1080, which was not written by the sweep"
COMMANDS = (("umount", "/spool/sweeps/mount"), ("mdadm", "--stop", "/dev/md127"))


def test_commands_follow_the_problem_that_they_solve() -> None:
    assert CleanupResult(("umount ended with status 32: target is busy",), COMMANDS).describe() == (
        "cleanup is incomplete: umount ended with status 32: target is busy\n"
        "run manually:\n"
        "  umount /spool/sweeps/mount\n"
        "  mdadm --stop /dev/md127"
    )


def test_foreign_data_is_reported_without_commands() -> None:
    text = CleanupResult((FOREIGN, "cannot read /dev/c: Input/output error")).describe()

    assert text == (
        f"cleanup is incomplete: {FOREIGN}; cannot read /dev/c: Input/output error\n"
        "the sweep does not remove this; check these devices"
    )
