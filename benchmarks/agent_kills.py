"""Kill -9 at 100 random instants of the agent's commands, against a server that violates the API.

    python -m benchmarks agent_kills [--kills 100] [--seed 18]

Run, flush, sweep, experiment, poll, and polls that adopt schedules: into a crontab, a file in /etc/cron.d,
and systemd timers, all below a temporary directory. The server resets, delays, truncates and sends wrong answers. fio
is a script that answers at once, and crontab one that replaces its file as cron's does. Sweeps are those over
directories; tests/agent/sweeping/test_sweep_loops.py kills sweeps that build arrays. Exit status 1 if a result was
lost or stored twice, if an experiment could not be completed, or if a crontab or unit was not a complete one, old or
new.
"""

import argparse
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from tests.agent import server as replies
from tests.agent.archives import build_archive
from tests.agent.conftest import FAKE_FIO
from tests.agent.server import TOKEN, Handler, HostileServer, Reply

# The limit of the random instant follows the load of the machine: every fifth command ends before it.
LONGER: Final = 1.2
SHORTER: Final = 0.5
# Of an adoption the time after its request, in which schedules are changed.
ADOPTION_SHARE: Final = 0.3
PAIRS: Final = 2
# Replaces crontab: writes a new file and renames it, as cron's does.
CRONTAB: Final = """#!/bin/sh
table="$(dirname "$0")/table"
case "$1" in
  -l) [ -f "$table" ] || { echo "no crontab for root" >&2; exit 1; }
    cat "$table" ;;
  -) cat > "$table.$$" && mv "$table.$$" "$table" ;;
esac
"""
# Replaces systemctl: stores which timers are enabled.
SYSTEMCTL: Final = """#!/bin/sh
enabled="$(dirname "$0")/enabled"
mkdir -p "$enabled"
case "$1" in
  enable) touch "$enabled/$3" ;;
  disable) rm -f "$enabled/$3" ;;
esac
"""
# Starts the one-file agent, which finds schedules below another root.
LAUNCHER: Final = """\
import os, sys
program, root, path = sys.argv[1:4]
sys.argv[:4] = [program]
sys.path.insert(0, program)
from agent.scheduling import schedule_command
machine = schedule_command.Machine(root, is_root=True, environ={"PATH": path})
schedule_command.find_machine = lambda: machine
from agent.commands.cli import main
sys.exit(main())
"""
Command = tuple[str, ...]


@dataclass
class AdoptingMachine:
    """Where one kind of schedules is installed: "crontab", "cron.d" or "timers"; its own root and spool."""

    kind: str
    home: Path
    directory: Path
    complete: dict[str, set[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.root, self.bin = self.home / "root", self.home / "bin"
        self.units = self.root / "etc" / "systemd" / "system"
        for path in (
            self.bin,
            self.root / "proc" / "1",
            self.root / "proc" / "77",
            self.root / "etc" / "cron.d",
        ):
            path.mkdir(parents=True)
        (self.root / "proc" / "77" / "comm").write_text("cron\n")
        if self.kind == "crontab":
            self._write_program("crontab", CRONTAB)
        if self.kind == "timers":
            (self.root / "run" / "systemd" / "system").mkdir(parents=True)
            self._write_program("systemctl", SYSTEMCTL)
        (self.home / "agent.ini").write_text(
            "[schedule]\nfrom_server = yes\nallow = quick runtime=1..30; saturation; ebs-series\n"
            f"directories = {self.directory}\nper_day = 288\n"
        )

    def _write_program(self, name: str, text: str) -> None:
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def make_environment(self) -> dict[str, str]:
        return {
            "BENCH_AGENT_CONFIG": str(self.home / "agent.ini"),
            "BENCH_AGENT_SPOOL": str(self.home / "spool"),
        }

    def read(self) -> dict[str, str]:
        """Return the crontab or the units by name; cron and systemd read no hidden file."""
        if self.kind == "timers":
            return {path.name: path.read_text() for path in self.units.glob("bench-agent-*")}
        path = self.bin / "table" if self.kind == "crontab" else self.root / "etc/cron.d/bench-agent"
        return {"table": path.read_text()} if path.exists() else {}

    def note_complete(self) -> None:
        """Note the texts of an adoption that was not killed."""
        for name, text in self.read().items():
            self.complete.setdefault(name, set()).add(text)

    def has_profile(self, profile: str) -> bool:
        """Return whether a schedule of a profile is installed."""
        return any(f'"profile": "{profile}"' in text for text in self.read().values())

    def is_changing(self) -> bool:
        """Return whether the last adoption began to change schedules and did not end."""
        return bool(json.loads((self.home / "spool" / "adoption.json").read_bytes())["is_changing"])

    def count_torn(self) -> int:
        """Return how many files have a text that no complete adoption wrote."""
        return sum(text not in self.complete.get(name, ()) for name, text in self.read().items())

    def list_wrong(self, profiles: set[str]) -> list[str]:
        """Return what differs after an adoption of these profiles that was not killed."""
        found = self.read()
        if self.kind != "timers":
            marked = {profile for profile in PROFILES if self.has_profile(profile)}
            return sorted(marked ^ profiles)
        names = {
            f"bench-agent-{name}.{kind}" for name in {*profiles, "poll"} for kind in ("service", "timer")
        }
        enabled = {path.name for path in (self.bin / "enabled").iterdir()}
        return sorted((set(found) ^ names) | (enabled ^ {name for name in names if name.endswith(".timer")}))


PROFILES: Final = ("quick", "saturation", "ebs-series")


class KilledAgents:
    """One host whose agents are killed."""

    def __init__(self, home: Path, server: HostileServer, chance: random.Random) -> None:
        self.home, self.server, self.chance = home, server, chance
        self.program = home / "bench-agent.pyz"
        self.program.write_bytes(build_archive())
        self.directory = home / "disk"
        self.directory.mkdir()
        fio = home / "fio"
        fio.write_text(FAKE_FIO)
        fio.chmod(0o755)
        config = home / "agent.ini"
        config.write_text(
            f"[run]\nfio = {fio}\n[requests]\nallow = quick\ndirectories = {self.directory}\nper_day = 48\n"
        )
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "BENCH_AGENT_CONFIG": str(config),
            "BENCH_AGENT_SPOOL": str(home / "spool"),
            "BENCH_AGENT_URL": server.url,
            "BENCH_AGENT_TOKEN": TOKEN,
        }
        self.machines = {
            kind: AdoptingMachine(kind, home / kind, self.directory)
            for kind in ("crontab", "cron.d", "timers")
        }
        self.spooled: set[str] = set()
        self.found: Counter[str] = Counter()

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a command; "adopt KIND" is a poll that adopts schedules."""
        command, environment = [str(self.program), *arguments], self.environment
        if arguments[0] == "adopt":
            machine = self.machines[arguments[1]]
            command = ["-c", LAUNCHER, str(self.program), str(machine.root), str(machine.bin), *arguments[2:]]
            environment = {**environment, **machine.make_environment()}
        return subprocess.Popen(
            [sys.executable, *command],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def complete(self, *arguments: str) -> None:
        """Run a command that is not killed."""
        status = self.start(*arguments).wait()
        if status:
            raise SystemExit(f"{' '.join(arguments)} ended with status {status}")

    def list_commands(self) -> list[Command]:
        budget, directory = ("--budget", "1"), str(self.directory)
        measured = ("--profile", "quick")
        return [
            ("run", *measured, "--directory", directory, *budget),
            ("flush", *budget),
            ("sweep", *measured, "--directories", directory, "--file-sizes", "1m,2m", "--yes", *budget),
            ("experiment", *budget),
            ("poll", *budget),
            *(("adopt", kind, "poll") for kind in self.machines),
        ]

    def complete_command(self, command: Command) -> Command:
        """Return an experiment that is continued, or a new one if none is left."""
        if command[0] != "experiment":
            return command
        if any(state["finished_at"] is None for state in self.read_experiments()):
            return (*command, "--resume", "last")
        place = ("--profile", "quick", "--directory", str(self.directory))
        return (*command, *place, "--pairs", str(PAIRS), "--switch-command", "true")

    def read_experiments(self) -> list[dict[str, Any]]:
        """Return the states of all experiments; ValueError if one is not complete."""
        return [json.loads(path.read_bytes()) for path in (self.home / "spool/experiments").glob("*.json")]

    def offer(self) -> None:
        """Let the server request a run, unless it waits for the result of one."""
        if all(offer["id"] in self.server.stored for offer in self.server.offers):
            request_id = str(UUID(int=self.chance.getrandbits(128), version=4))
            directory = str(self.directory)
            self.server.offers.append(
                {"id": request_id, "profile": "quick", "parameters": {}, "directory": directory}
            )

    def want(self, number: int) -> set[str]:
        """Let the server want one of two schedules of the host; return its profiles."""
        place = {"parameters": {}, "directory": str(self.directory), "every_s": 86400, "at_minute": 90}
        profiles = ("quick", "saturation") if number % 2 else ("quick", "ebs-series")
        lines = [{**place, "profile": profile} for profile in profiles]
        if number % 2:
            lines[0]["at_minute"] = 30
        self.server.want(*lines, version=f"a{number % 2}")
        return set(profiles)

    def measure_durations(self) -> list[float]:
        """Return how long each command takes if it is not killed; leave results to deliver."""
        durations = []
        for machine in self.machines.values():
            kind = "--systemd" if machine.kind == "timers" else "--cron"
            self.complete("adopt", machine.kind, "schedule", "install", "--poll", kind)
            machine.note_complete()
            for number in (0, 1):
                self.want(number)
                self.complete("adopt", machine.kind, "poll")
                machine.note_complete()
        for command in self.list_commands():
            self.offer()
            self.want(0)
            started = time.monotonic()
            self.complete(*self.complete_command(command))
            share = ADOPTION_SHARE if command[0] == "adopt" else 1.0
            durations.append(share * (time.monotonic() - started))
        for _ in range(5):
            self.complete("run", "--profile", "quick", "--directory", str(self.directory), "--no-send")
        self.note_spooled()
        return durations

    def kill_one(self, command: Command, limit_s: float) -> float:
        """Start a command and kill it with its children at a random instant before limit_s; return the next limit."""
        name = " ".join(command[:2]) if command[0] == "adopt" else command[0]
        self.offer()
        if command[0] == "adopt":
            self.want(0 if self.machines[command[1]].has_profile("saturation") else 1)
            self.server.adoption = self.send(self.server.adoption)
        requests = len(self.server.adoptions)
        process = self.start(*self.complete_command(command))
        while command[0] == "adopt" and len(self.server.adoptions) == requests and process.poll() is None:
            time.sleep(0.002)
        try:
            process.wait(timeout=self.chance.uniform(0.05, 1.0) * limit_s)
            self.found[f"{name}: ended before"] += 1
            limit_s *= SHORTER
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            self.found[f"{name}: killed"] += 1
            limit_s *= LONGER
        for machine in self.machines.values():
            self.found["torn"] += machine.count_torn()
        if command[0] == "adopt" and self.machines[command[1]].is_changing():
            self.found[f"{name}: killed while it changed schedules"] += 1
        self.note_spooled()
        return limit_s

    def note_spooled(self) -> None:
        for path in (self.home / "spool" / "pending").glob("2*.json.gz"):
            self.spooled.add(path.name.partition("-")[2][:36])

    def receive(self, handler: Handler, body: bytes) -> None:
        """Answer a POST, often wrongly; what arrives was in the spool."""
        self.spooled.add(handler.headers["Idempotency-Key"])
        self.chance.choice(replies.HOSTILITIES)(handler, body)

    def describe(self, handler: Handler, body: bytes) -> None:
        """Answer a GET about a submission."""
        submission_id = handler.path.rpartition("/")[2]
        if submission_id not in self.server.stored:
            handler.answer_problem(404, "not-found")
        else:
            handler.answer(200, {"id": submission_id, "state": "stored", "reason": None, "runs": []})

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
        server.state = host.describe
        limits = host.measure_durations()
        server.usual = host.receive
        server.state = host.send(host.describe)
        commands = host.list_commands()
        for number in itertools.count():
            if sum(count for word, count in host.found.items() if word.endswith(": killed")) >= options.kills:
                break
            place = number % len(commands)
            limits[place] = host.kill_one(commands[place], limits[place])
        server.usual = replies.accept
        server.state = host.describe
        status = report(host, server, finish(host))
        server.shutdown()
    return status


def finish(host: KilledAgents) -> dict[str, int]:
    """Complete what killed agents left, against a server that follows the API; return the exit status of each."""
    ends = {}
    while any(state["finished_at"] is None for state in host.read_experiments()) and not any(ends.values()):
        ends["experiment"] = host.start("experiment", "--resume", "last").wait()
    for kind, machine in host.machines.items():
        profiles = host.want(1)
        ends[f"adopt {kind}"] = host.start("adopt", kind, "poll").wait()
        host.found["schedules that differ"] += len(machine.list_wrong(profiles))
        host.found["torn"] += machine.count_torn()
    ends["flush"] = host.start("flush", "--budget", "60").wait()
    # Agents remove what killed ones left in the measured directory.
    ends["run"] = host.start("run", "--profile", "quick", "--directory", str(host.directory)).wait()
    return ends


def count_runs(host: KilledAgents, server: HostileServer) -> Counter[str]:
    """Return how many runs of experiments have a result, and how many results are of no run."""
    found: Counter[str] = Counter()
    labels = [json.loads(body).get("labels", {}) for body in server.stored.values()]
    results = Counter(each["experiment"] for each in labels if "experiment" in each)
    for state in host.read_experiments():
        runs = state["runs"]
        found["experiments"] += 1
        found["runs"] += len(runs)
        found["without"] += sum(run["state"] != "done" or run["run_id"] not in server.stored for run in runs)
        found["more"] += results[state["id"]] - len(runs)
    return found


def report(host: KilledAgents, server: HostileServer, ends: dict[str, int]) -> int:
    """Print what was found; return 1 if something is wrong."""
    lost = host.spooled - set(server.stored)
    twice = [each for each, count in server.first_answers.items() if count > 1]
    left = [path.name for path in host.directory.iterdir()]
    runs = count_runs(host, server)
    for word, count in sorted(host.found.items()):
        if ":" in word:
            print(f"{word:48}{count:>8}")
    wrong = {
        "results lost": len(lost),
        "results stored twice": len(twice),
        "runs of experiments without a result": runs["without"],
        "results of experiments without a run": runs["more"],
        "half-written crontabs and units": host.found["torn"],
        "schedules that differ after the next poll": host.found["schedules that differ"],
        "files left in the measured directory": len(left),
        "commands that failed at the end": sum(map(bool, ends.values())),
    }
    print(f"{'results in the spool':48}{len(host.spooled):>8}")
    print(f"{'experiments, and their runs':48}{runs['experiments']:>4}{runs['runs']:>4}")
    for word, count in wrong.items():
        print(f"{word:48}{count:>8}")
    print("exit status at the end: " + ", ".join(f"{name} {end}" for name, end in ends.items()))
    return int(any(wrong.values()))


if __name__ == "__main__":
    sys.exit(main())
