"""What reads of the API cost: lists of 100 and a history of 1 000 points over 1 million measurements.

    python -m benchmarks reads [--reads NAME …] [--database DIR] [--writes PER_S]

p50 and p95: of one client alone. Reads per second and CPU: as in benchmarks.fleet_load. The limit beside them is a
view that runs SELECT 1, behind the same server and middleware (benchmarks.bare_read).
"""

import argparse

from benchmarks.fleet_load import describe_fleet, measure_load, read_fleet_options, start_fleet

MEASUREMENTS = 250
# Of the history that is read.
POINTS = 1000
READS = {
    "bare": "/bare-read",
    "hosts": "/api/v1/hosts?limit=100",
    "series": "/api/v1/series?limit=100",
    "runs": "/api/v1/runs?limit=100",
    "changes": "/api/v1/changes?limit=100",
    "incidents": "/api/v1/incidents?limit=100",
    "points": f"/api/v1/series/{{series}}/points?limit={POINTS}",
    "history": "/api/v1/history?series={series}&metrics=iops",
    "scaling": "/api/v1/scaling",
    "matrix": "/api/v1/matrix",
}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks reads",
        description="Response times of reads of the API, reads per second, CPU time of each.",
    )
    parser.add_argument(
        "--reads", nargs="+", choices=READS, metavar="NAME", help=f"measure only these: {', '.join(READS)}"
    )
    options = read_fleet_options(parser, measurements=MEASUREMENTS)
    if options.measurements > POINTS:
        parser.error(f"--measurements: at most {POINTS}, the points of the history")
    with start_fleet(
        options, long=POINTS - options.measurements, application="benchmarks.bare_read:application"
    ) as servers:
        ((series,),) = servers.query("SELECT min(id) FROM benchapp_series")
        head = f"{describe_fleet(servers)}, {options.writes} writes/s"
        print(
            f"{head:44}{'p50 ms':>9}{'p95 ms':>9}{'reads/s':>9}{'web ms':>9}{'PG ms':>9}   aim: p95 15 ms, 300/s"
        )
        for label in options.reads or READS:
            path = READS[label].format(series=series)
            about = {"seconds": options.seconds, "writes_per_s": options.writes}
            alone = measure_load(servers, path, connections=1, **about)
            rate = measure_load(servers, path, **about)
            print(
                f"{label:44}{alone.p50_ms:9.1f}{alone.p95_ms:9.1f}"
                f"{rate.per_s:9.0f}{rate.web_ms:9.1f}{rate.postgres_ms:9.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
