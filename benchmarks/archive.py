"""What archives cost: rows per second and memory of `manage.py export` and `import_archive`, beside a bare COPY.

    python -m benchmarks.archive [SERIES] [MEASUREMENTS-OF-EACH]

The limits beside them are COPY of the measurements alone, out of their table and into an empty table with the
same indexes. The import goes to another PostgreSQL; its second line is the same archive again, of which nothing is new.
Memory: the largest of the command's process; that of a command without rows is listed first.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.charts import SEED, VACUUM
from tests.servers import ROOT, Servers

SERIES, MEASUREMENTS = 4000, 250
# The seed leaves all series due, and without levels: an import would evaluate them.
EVALUATED = """
from django.db import connection
from benchapp.models import Series
Series.objects.update(judging_is_due=False)
"""
COPY = """
import io, time
from django.db import connection
connection.ensure_connection()
cursor = connection.connection.cursor()
started = time.perf_counter()
parts = []
with cursor.copy('COPY benchapp_measurement TO STDOUT (FORMAT csv)') as copy:
    for row in copy:
        parts.append(bytes(row))
out_s = time.perf_counter() - started
cursor.execute('CREATE TABLE copied (LIKE benchapp_measurement INCLUDING ALL)')
content = b''.join(parts)
started = time.perf_counter()
with cursor.copy('COPY copied FROM STDIN (FORMAT csv)') as copy:
    for place in range(0, len(content), 1 << 20):
        copy.write(content[place:place + (1 << 20)])
connection.connection.commit()
in_s = time.perf_counter() - started
cursor.execute('DROP TABLE copied')
connection.connection.commit()
print(len(parts), len(content), out_s, in_s)
"""


def main() -> None:
    """Print the table."""
    wanted = [int(argument) for argument in sys.argv[1:3]]
    series, measurements = (*wanted, *(SERIES, MEASUREMENTS)[len(wanted) :])
    source, target = Servers(), Servers()
    try:
        for servers in (source, target):
            servers.start_postgres()
            servers.manage("migrate", "--verbosity", "0")
        file = source.directory / "history.tar.zst"
        print(f"{'':44}{'rows':>10}{'MB':>8}{'s':>8}{'rows/s':>10}{'MiB':>8}")
        _measure(source, "export without rows", file, "export", str(file), "--quiet")
        seed = SEED.format(series=series, measurements=measurements, long=measurements)
        for code in (seed, EVALUATED, VACUUM):
            source.manage("shell", "--no-imports", "-c", code)
        printed = source.manage("shell", "--no-imports", "-c", COPY)
        count, size, out_s, in_s = printed.strip().splitlines()[-1].split()
        _print_line("COPY of the measurements (the limit)", int(count), int(size), float(out_s))
        _measure(source, "export", file, "export", str(file), "--quiet")
        _measure(source, "import_archive --check", file, "import_archive", str(file), "--check", "--quiet")
        _print_line("COPY into a table with indexes (the limit)", int(count), int(size), float(in_s))
        for label in ("import_archive", "import_archive, the same again"):
            _measure(target, label, file, "import_archive", str(file), "--quiet")
        for suffix in (".sqlite", ".parquet"):
            other = source.directory / f"history{suffix}"
            _measure(source, f"export to {suffix}", other, "export", str(other), "--quiet")
    finally:
        source.stop()
        target.stop()


def _measure(servers: Servers, label: str, file: Path, *arguments: str) -> None:
    started = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "manage.py", *arguments],
        cwd=ROOT,
        env=servers.env("command"),
        stdout=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    taken_s = time.perf_counter() - started
    if status != 0:
        raise SystemExit(f"{' '.join(arguments)} failed")
    count = int(servers.manage("shell", "--no-imports", "-c", COUNT).strip().splitlines()[-1])
    size = sum(part.stat().st_size for part in file.iterdir()) if file.is_dir() else file.stat().st_size
    _print_line(label, count, size, taken_s, usage.ru_maxrss / 1024)


COUNT = """
from benchapp.operation.archive.tables import TABLES
print(sum(table.model.objects.count() for name, table in TABLES.items() if name != "authors"))
"""


def _print_line(label: str, count: int, size: int, taken_s: float, peak_mib: float | None = None) -> None:
    peak = "" if peak_mib is None else f"{peak_mib:8.0f}"
    print(f"{label:44}{count:10}{size / 1e6:8.1f}{taken_s:8.2f}{count / taken_s:10.0f}{peak:>8}", flush=True)


if __name__ == "__main__":
    main()
