"""Kill -9 at 100 random instants of run, flush, sweep, poll and self-update, against a server that violates the API.

    python -m benchmarks agent_kills [--kills 100] [--seed 18]

The server resets, delays, truncates and sends wrong answers. fio is a script that answers at once. Sweeps are those
over directories; tests/agent/sweeping/test_sweep_loops.py kills sweeps that build arrays. Exit status 1 if a result was
lost or stored twice, or if the file of the agent was neither the old version nor the new one.
"""

import argparse
import itertools
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Final
from uuid import UUID

from tests.agent import server as replies
from tests.agent.archives import build_archive, build_version
from tests.agent.conftest import FAKE_FIO
from tests.agent.server import TOKEN, Handler, HostileServer, Reply

VERSION: Final = "99.0.0"
# The limit of the random instant follows the load of the machine: every fourth or fifth command ends before it.
LONGER: Final = 1.05
SHORTER: Final = 0.85


class KilledAgents:
    """One host whose agents are killed. installed, newer: the two versions of its program."""

    def __init__(self, home: Path, server: HostileServer, chance: random.Random) -> None:
        self.home, self.server, self.chance = home, server, chance
        self.program = home / "bench-agent.pyz"
        self.installed, self.newer = build_archive(), build_version(VERSION)
        self.directory = home / "disk"
        self.directory.mkdir()
        fio = home / "fio"
        fio.write_text(FAKE_FIO)
        fio.chmod(0o755)
        config = home / "agent.ini"
        config.write_text(
            f"[run]\nfio = {fio}\n[requests]\nallow = quick\ndirectories = {self.directory}\nper_day = 1000\n"
        )
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "BENCH_AGENT_CONFIG": str(config),
            "BENCH_AGENT_SPOOL": str(home / "spool"),
            "BENCH_AGENT_URL": server.url,
            "BENCH_AGENT_TOKEN": TOKEN,
        }
        self.spooled: set[str] = set()
        self.found: Counter[str] = Counter()

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, str(self.program), *arguments],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def list_commands(self) -> list[tuple[str, ...]]:
        measured = ("--profile", "quick")
        directory = str(self.directory)
        return [
            ("run", *measured, "--directory", directory, "--budget", "1"),
            ("flush", "--budget", "1"),
            (
                "sweep",
                *measured,
                "--directories",
                directory,
                "--file-sizes",
                "1m,2m",
                "--yes",
                "--budget",
                "1",
            ),
            ("poll", "--budget", "1"),
            ("self-update",),
        ]

    def offer(self) -> None:
        """Let the server request a run, unless it waits for the result of one."""
        if all(offer["id"] in self.server.stored for offer in self.server.offers):
            request_id = str(UUID(int=self.chance.getrandbits(128), version=4))
            directory = str(self.directory)
            self.server.offers.append(
                {"id": request_id, "profile": "quick", "parameters": {}, "directory": directory}
            )

    def measure_durations(self) -> list[float]:
        """Return how long each command takes if it is not killed; leave results to deliver."""
        durations = []
        for command in self.list_commands():
            self.offer()
            self.program.write_bytes(self.installed)
            started = time.monotonic()
            self.start(*command).wait()
            durations.append(time.monotonic() - started)
        for _ in range(5):
            self.start("run", "--profile", "quick", "--directory", str(self.directory), "--no-send").wait()
        self.note_spooled()
        return durations

    def kill_one(self, command: tuple[str, ...], limit_s: float) -> float:
        """Start a command and kill it with its children at a random instant before limit_s; return the next limit."""
        self.offer()
        self.program.write_bytes(self.installed)
        process = self.start(*command)
        try:
            process.wait(timeout=self.chance.uniform(0.05, 1.0) * limit_s)
            self.found[f"{command[0]}: ended before"] += 1
            limit_s *= SHORTER
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            self.found[f"{command[0]}: killed"] += 1
            limit_s *= LONGER
        content = self.program.read_bytes()
        if content not in (self.installed, self.newer):
            self.found["half-installed"] += 1
        elif command[0] == "self-update":
            self.found["self-update: " + ("new version" if content == self.newer else "old version")] += 1
        self.note_spooled()
        return limit_s

    def note_spooled(self) -> None:
        for path in (self.home / "spool" / "pending").glob("2*.json.gz"):
            self.spooled.add(path.name.partition("-")[2][:36])

    def receive(self, handler: Handler, body: bytes) -> None:
        """Answer a POST, often wrongly; what arrives was in the spool."""
        self.spooled.add(handler.headers["Idempotency-Key"])
        self.chance.choice(replies.HOSTILITIES)(handler, body)

    def send(self, right: Reply) -> Reply:
        """Return a reply that is wrong one time in ten."""
        wrong = (replies.reset, replies.truncate, replies.captive_portal, replies.reply_problem(503))

        def reply(handler: Handler, body: bytes) -> None:
            (right if self.chance.random() < 0.9 else self.chance.choice(wrong))(handler, body)

        return reply


def main() -> int:
    """Kill agents, then deliver what is left, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=18)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bb-") as name, HostileServer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        host = KilledAgents(Path(name), server, random.Random(options.seed))
        server.ship(VERSION, host.newer)
        limits = host.measure_durations()
        server.usual = host.receive
        release, archive = server.release, server.archive
        server.release, server.archive = host.send(release), host.send(archive)
        commands = host.list_commands()
        for number in itertools.count():
            if sum(count for word, count in host.found.items() if word.endswith(": killed")) >= options.kills:
                break
            place = number % len(commands)
            limits[place] = host.kill_one(commands[place], limits[place])
        server.usual, server.release, server.archive = replies.accept, release, archive
        ends = [host.start("flush", "--budget", "60").wait(), host.start("self-update").wait()]
        # Agents remove what killed ones left in the measured directory.
        ends.append(host.start("run", "--profile", "quick", "--directory", str(host.directory)).wait())
        status = report(host, server, ends)
        server.shutdown()
    return status


def report(host: KilledAgents, server: HostileServer, ends: list[int]) -> int:
    """Print what was found; return 1 if something is wrong."""
    lost = host.spooled - set(server.stored)
    twice = [each for each, count in server.first_answers.items() if count > 1]
    hidden = [path.name for path in host.home.glob(".bench-agent*")]
    is_new = host.program.read_bytes() == host.newer
    left = [path.name for path in host.directory.iterdir()]
    for word, count in sorted(host.found.items()):
        print(f"{word:40}{count:>8}")
    for word, count in (
        ("results in the spool", len(host.spooled)),
        ("results lost", len(lost)),
        ("results stored twice", len(twice)),
        ("half-installed agents", host.found["half-installed"]),
        ("files left by killed updates", len(hidden)),
        ("files left in the measured directory", len(left)),
    ):
        print(f"{word:40}{count:>8}")
    print(f"{'last flush, self-update, run':40}{ends!s:>8}")
    is_bad = bool(lost or twice or hidden or left or host.found["half-installed"] or any(ends) or not is_new)
    return int(is_bad)


if __name__ == "__main__":
    sys.exit(main())
