"""How much longer a direction ran than in an earlier report of the same execution."""

from typing import Final

from benchapp.fio.version import Version

# 2.1.3 prints the run time of snapshots in µs, and in ms at the end; 2.1.14 does not.
SNAPSHOTS_IN_MS: Final[Version] = (2, 1, 14)
# The shortest --status-interval is a second, of which setting up takes a part.
SHORTEST_SNAPSHOT_US: Final = 500_000
# Between 1 (µs, for the same rate) and 1000 (ms, for the same rate).
_MUCH_FASTER: Final = 30


def measure_growth_ms(before: tuple[float, int], after: tuple[float, int], version: Version) -> float:
    """Return the growth of the run time, negative if it shrank; both are (bytes, run time as printed, in ms).

    A longer time before, of an old or unknown version, is µs if the rate would else have grown out of proportion.
    """
    bytes_before, time_before = before
    bytes_after, time_after = after
    if (
        version < SNAPSHOTS_IN_MS
        and time_before > time_after
        and time_before >= SHORTEST_SNAPSHOT_US
        and time_before * bytes_after > _MUCH_FASTER * time_after * bytes_before
    ):
        return time_after - time_before / 1000
    return time_after - time_before
