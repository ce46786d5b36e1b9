"""Schedules of the server: adopted within what the host allows; a server that sends garbage changes nothing."""

import contextlib
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from agent.profiles.profile import load_profile
from agent.scheduling.schedule_command import Machine as Schedules
from agent.scheduling.timetable import read_mark
from tests.agent import server as replies
from tests.agent.conftest import Machine
from tests.agent.server import HostileServer, Reply

OTHERS = "MAILTO=ops\n0 * * * * true\n"


def allow(host: Machine, **settings: str) -> None:
    """Adopt the profile quick in the directory of the host, unless given otherwise."""
    usual = {"from_server": "yes", "allow": "quick runtime=4..30", "directories": str(host.directory)}
    host.configure("schedule", **{**usual, **settings})


def make_line(host: Machine, **changes: Any) -> dict[str, Any]:
    """Return a wanted schedule that the host allows, unless changed."""
    return {
        "profile": "quick",
        "parameters": {"runtime": 5},
        "directory": str(host.directory),
        "every_s": 21600,
        "at_minute": 137,
        **changes,
    }


def adopt(host: Machine, server: HostileServer, **settings: str) -> None:
    """Adopt the usual schedule."""
    allow(host, **settings)
    server.want(make_line(host))
    host.run("poll")


def list_crontab(table: Path) -> list[str]:
    """Return the agent's lines of the crontab, without those of others."""
    text = table.read_text() if table.exists() else ""
    return text.partition("# BEGIN")[2].partition("# END")[0].splitlines()[1:]


def test_wanted_schedule_is_installed_and_reported(host: Machine, table: Path, server: HostileServer) -> None:
    table.write_text(OTHERS)
    allow(host)
    server.want(make_line(host))

    ended = host.run_json("poll")

    mark, line = list_crontab(table)
    schedule = read_mark(mark)
    assert (ended["exit_code"], ended["schedule"]) == (
        0,
        {"installed": ["quick"], "refused": [], "problem": None},
    )
    assert schedule is not None
    assert (schedule.is_from_server, schedule.parameters, schedule.at_minute) == (True, {"runtime": 5}, 137)
    assert line.startswith("17 2,8,14,20 * * * ")
    assert (
        f" run --quiet --config {host.home}/agent.ini --profile quick --directory {host.directory} " in line
    )
    assert line.endswith("--set runtime=5 --patience 10800s")
    assert table.read_text().startswith(OTHERS)
    assert server.schedule == [
        {
            "profile": "quick",
            "every_s": 21600,
            "splay_s": 0,
            "directory": str(host.directory),
            "at_minute": 137,
            "parameters": {"runtime": 5},
            "is_from_server": True,
        }
    ]
    first, second = server.adoptions
    assert (first["version"], second["version"], second["refused"]) == ("", "ab12", [])
    assert first["profiles"] == [
        {"profile": "quick", "parameters": {"runtime": {"minimum": 4, "maximum": 30}}}
    ]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_schedule_is_not_adopted_if_another_user_can_change_what_its_runs_use(
    host: Machine, table: Path, server: HostileServer
) -> None:
    allow(host)
    server.want(make_line(host))
    os.chown(host.home / "fio", 65534, 65534)

    ended = host.run("poll")

    assert (ended.returncode, table.exists()) == (2, False)
    assert f"{host.home}/fio belongs to user nobody, who could change what root uses" in ended.stderr


def test_poll_without_a_change_sends_one_request_and_writes_nothing(
    host: Machine, table: Path, server: HostileServer
) -> None:
    adopt(host, server)
    before = table.stat().st_mtime_ns, len(server.adoptions)

    host.run("poll")

    assert (table.stat().st_mtime_ns, len(server.adoptions)) == (before[0], before[1] + 1)


def test_nothing_is_adopted_or_asked_by_default(host: Machine, table: Path, server: HostileServer) -> None:
    server.want(make_line(host))

    assert host.run_json("poll")["schedule"] is None
    assert (server.adoptions, table.exists()) == ([], False)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"profile": "saturation"}, "the profile is not in [schedule] allow"),
        ({"profile": "../x"}, "the profile is not in [schedule] allow"),
        ({"parameters": {"size": 2**40}}, "a parameter is not in [schedule] allow"),
        ({"parameters": {"runtime": 3600}}, "the value of a parameter is not in [schedule] allow"),
        ({"parameters": {"runtime": "5 --jobfile /x"}}, "the value of a parameter is not in"),
        ({"directory": "/"}, "the directory is not in [schedule] directories"),
        ({"directory": "/dev/sda"}, "the directory is not in [schedule] directories"),
        ({"every_s": 2700}, "an interval of 2700 s is not supported"),
        ({"every_s": 0}, "an interval of 0 s is not supported"),
        ({"at_minute": 1440}, "1440 minutes after midnight are not within a day"),
        ({"every_s": 600}, "more than 24 scheduled runs within 24 hours, see [schedule] per_day"),
        ({"every_s": 60, "parameters": {"runtime": 30}}, "runs would overlap"),
        ({"at_minute": 9 * 60}, "the run of 09:00 touches [schedule] quiet_hours"),
    ],
)
def test_line_outside_of_the_lists_is_refused_with_the_reason(
    host: Machine, table: Path, server: HostileServer, changes: dict[str, Any], reason: str
) -> None:
    allow(host, quiet_hours="09:00-10:00" if "at_minute" in changes else "")
    server.want(make_line(host, **{"every_s": 86400, **changes}))

    ended = host.run_json("poll")

    (refused,) = ended["schedule"]["refused"]
    assert reason in refused["reason"]
    assert ended["exit_code"] == 0
    assert not table.exists()
    assert server.adoptions[-1]["refused"] == [refused]


def test_refused_change_keeps_what_is_installed_and_allowed_lines_are_adopted(
    host: Machine, table: Path, server: HostileServer
) -> None:
    adopt(host, server, allow="quick runtime=4..30; saturation runtime=1..30")
    server.want(
        make_line(host, parameters={"runtime": 99}),
        make_line(host, profile="saturation", parameters={"runtime": 1}),
        version="cd34",
    )

    host.run("poll")

    marks = [read_mark(line) for line in list_crontab(table)]
    assert {mark.profile: mark.parameters for mark in marks if mark} == {
        "quick": {"runtime": 5},
        "saturation": {"runtime": 1},
    }


def test_runs_of_a_schedule_that_stays_because_its_line_is_refused_count(
    host: Machine, table: Path, server: HostileServer
) -> None:
    adopt(host, server, allow="quick runtime=4..30; saturation", per_day="4")

    other = make_line(host, profile="saturation", parameters={})
    server.want(make_line(host, parameters={"runtime": 3600}), other)
    ended = host.run_json("poll")

    marks = [read_mark(line) for line in list_crontab(table)[::2]]
    assert [mark.profile for mark in marks if mark] == ["quick"]
    assert {each["profile"]: each["reason"] for each in ended["schedule"]["refused"]} == {
        "quick": "the value of a parameter is not in [schedule] allow",
        "saturation": "more than 4 scheduled runs within 24 hours, see [schedule] per_day",
    }


def test_line_with_too_many_runs_does_not_refuse_others(
    host: Machine, table: Path, server: HostileServer
) -> None:
    allow(host, allow="quick runtime=4..30; saturation")
    server.want(
        make_line(host, every_s=600), make_line(host, profile="saturation", parameters={}, every_s=43200)
    )

    ended = host.run_json("poll")

    assert ended["schedule"]["installed"] == ["saturation"]
    assert [each["profile"] for each in ended["schedule"]["refused"]] == ["quick"]


def test_schedule_that_moves_with_each_poll_is_refused_in_the_end(
    host: Machine, table: Path, server: HostileServer
) -> None:
    allow(host, per_day="1")
    for minute in range(11):
        server.want(make_line(host, every_s=86400, at_minute=minute))
        ended = host.run_json("poll")

    assert [each["reason"] for each in ended["schedule"]["refused"]] == [
        "schedules were changed too often within 24 hours, see [schedule] per_day"
    ]
    assert list_crontab(table)[1].startswith("9 0 * * * ")
    server.want(make_line(host, every_s=86400, at_minute=9))
    assert host.run_json("poll")["schedule"]["refused"] == []


def test_fewer_runs_of_one_profile_make_room_for_those_of_another(
    host: Machine, table: Path, server: HostileServer
) -> None:
    allow(host, allow="quick runtime=4..30; saturation", per_day="4")
    other = make_line(host, profile="saturation", parameters={}, every_s=43200)
    server.want(make_line(host, every_s=43200), other)
    host.run("poll")

    server.want(make_line(host, every_s=28800), {**other, "every_s": 86400})
    ended = host.run_json("poll")

    assert ended["schedule"]["installed"] == ["quick", "saturation"]


def test_parameter_with_its_default_is_reported_as_it_is_wanted(
    host: Machine, table: Path, server: HostileServer
) -> None:
    allow(host)
    default = {parameter.name: parameter.default for parameter in load_profile("quick").parameters}["runtime"]
    server.want(make_line(host, parameters={"runtime": default}))

    host.run("poll")

    assert [each["parameters"] for each in server.schedule] == [{"runtime": default}]


def test_schedule_that_is_not_wanted_any_more_is_removed_and_the_previous_one_is_kept(
    host: Machine, table: Path, server: HostileServer
) -> None:
    table.write_text(OTHERS)
    allow(host)
    host.run("schedule", "install", "--poll", "--cron")
    server.want(make_line(host))
    host.run("poll")
    server.want(version="cd34")

    host.run("poll")

    assert [mark.profile for mark in map(read_mark, list_crontab(table)) if mark] == ["poll"]
    stored = json.loads((host.spool / "adoption.json").read_text())
    (previous,) = map(read_mark, stored["previous"])
    assert previous is not None and previous.profile == "quick"
    assert server.schedule == []


def test_schedule_that_was_set_on_the_host_is_never_replaced_or_removed(
    host: Machine, table: Path, server: HostileServer
) -> None:
    allow(host)
    host.install()
    before = table.read_text()
    server.want(make_line(host))

    ended = host.run_json("poll")
    server.want(version="cd34")
    host.run("poll")

    assert (
        f"schedule remove --profile quick --directory {host.directory}`"
        in (ended["schedule"]["refused"][0]["reason"])
    )
    assert table.read_text() == before


def test_schedule_that_was_set_in_another_directory_stays_beside_the_wanted_one(
    host: Machine, table: Path, server: HostileServer, tmp_path: Path
) -> None:
    (tmp_path / "own").mkdir()
    host.install("--directory", str(tmp_path / "own"))
    adopt(host, server)
    places = [mark.directory for mark in map(read_mark, list_crontab(table)) if mark]
    server.want(version="cd34")

    host.run("poll")

    assert places == [str(tmp_path / "own"), str(host.directory)]
    assert [mark.directory for mark in map(read_mark, list_crontab(table)) if mark] == [str(tmp_path / "own")]


def test_wanted_schedule_that_moves_to_another_directory_leaves_none_behind(
    host: Machine, table: Path, server: HostileServer, tmp_path: Path
) -> None:
    (tmp_path / "b").mkdir()
    adopt(host, server, directories=f"{host.directory}, {tmp_path}/b")
    server.want(make_line(host, directory=str(tmp_path / "b")), version="cd34")

    host.run("poll")

    assert [mark.directory for mark in map(read_mark, list_crontab(table)) if mark] == [str(tmp_path / "b")]


def make_garbage(host: Machine) -> list[Reply]:
    """Return what a broken or compromised server, or another service, may answer."""
    line = make_line(host)
    documents: list[object] = [
        {},
        [],
        {"version": "ab12"},
        {"version": "ab12", "wanted": {}},
        {"version": "../../x", "wanted": []},
        {"version": "ab12", "wanted": [line, line]},
        {"version": "ab12", "wanted": [line] * 101},
        {"version": "ab12", "wanted": [line, None]},
        *(
            {"version": "ab12", "wanted": [{**line, **change}]}
            for change in (
                {"every_s": "6h"},
                {"every_s": True},
                {"every_s": 10**20},
                {"at_minute": -1},
                {"directory": None},
                {"profile": 7},
                {"profile": "x" * 101},
                {"parameters": ["runtime"]},
                {"parameters": {"runtime": None}},
                {"directory": "/a\x00b"},
            )
        ),
    ]

    def reply(document: object) -> Reply:
        return lambda handler, body: handler.answer(200, document)

    return [
        *map(reply, documents),
        replies.reply_problem(500),
        replies.reply_problem(404),
        replies.captive_portal,
        replies.send_garbage,
        replies.reply_at_length,
        lambda handler, body: handler.reset(),
    ]


def test_server_that_fails_or_sends_garbage_changes_nothing(
    host: Machine, table: Path, server: HostileServer
) -> None:
    table.write_text(OTHERS)
    adopt(host, server)
    before = table.read_text(), (host.spool / "adoption.json").read_text()

    for answer in make_garbage(host):
        server.adoption = answer
        ended = host.run_json("poll")
        assert ended["schedule"]["problem"].endswith("nothing was changed"), ended
        assert (table.read_text(), (host.spool / "adoption.json").read_text()) == before


def test_unreachable_server_changes_nothing(host: Machine, table: Path, server: HostileServer) -> None:
    adopt(host, server)
    before = table.read_text()

    ended = host.run_json("poll", BENCH_AGENT_URL="http://127.0.0.1:9")

    assert ended["exit_code"] == 1
    assert table.read_text() == before


def test_host_that_stops_adopting_keeps_its_schedules_and_reports_it_once(
    host: Machine, table: Path, server: HostileServer
) -> None:
    adopt(host, server)
    before, config = table.read_text(), Path(host.environ["BENCH_AGENT_CONFIG"])
    config.write_text(config.read_text().replace("from_server = yes", "from_server = no"))
    server.want(version="cd34")
    count = len(server.adoptions)

    ended = host.run("poll")
    host.run("poll")

    assert "not adopted any more; those that are installed stay" in ended.stderr
    assert table.read_text() == before
    assert [each["is_allowed"] for each in server.adoptions[count:]] == [False]
    assert "are not adopted any more" in host.run("schedule", "show").stdout


def test_failed_installation_is_reported_and_repeated(
    host: Machine, table: Path, server: HostileServer
) -> None:
    allow(host)
    server.want(make_line(host))
    command = table.parent / "crontab"
    works = command.read_text()
    command.write_text(works.replace("cat >", 'echo "bad minute" >&2; exit 1; cat >'))

    failed = host.run_json("poll")
    command.write_text(works)
    host.run("poll")

    assert failed["schedule"]["problem"].startswith("crontab rejected")
    assert "bad minute" in str(server.adoptions[1]["problem"])
    assert server.adoptions[-1]["problem"] == ""
    assert len(list_crontab(table)) == 2


def test_host_without_cron_and_systemd_fails_only_with_a_schedule_to_install(
    host: Machine, server: HostileServer
) -> None:
    allow(host)
    server.want()

    nothing = host.run_json("poll")
    checks = {each["name"]: each for each in host.run_json("check")["checks"]}
    server.want(make_line(host, profile="saturation"))
    refused = host.run_json("poll")
    server.want(make_line(host))
    wanted = host.run_json("poll")

    reason = "neither cron nor systemd is running: no schedule can be installed"
    assert (nothing["exit_code"], nothing["schedule"]["problem"]) == (0, None)
    assert (refused["exit_code"], len(refused["schedule"]["refused"])) == (0, 1)
    assert (wanted["exit_code"], wanted["schedule"]["problem"]) == (2, reason)
    assert (checks["from_server"]["ok"], checks["from_server"]["warning"]) == (True, True)
    assert checks["from_server"]["detail"].endswith(f"; {reason}")
    assert [each["problem"] for each in server.adoptions[-2:]] == ["", reason]


def test_units_are_installed_where_the_poll_is_a_timer(
    host: Machine, hide_own_schedules: Schedules, server: HostileServer
) -> None:
    allow(host)
    host.run("schedule", "install", "--poll", "--systemd")
    server.want(make_line(host))

    host.run("poll")
    directory = Path(hide_own_schedules.root) / "etc/systemd/system"
    service = (directory / "bench-agent-quick.service").read_text()
    poll = (directory / "bench-agent-poll.service").read_text()
    server.want(version="cd34")
    host.run("poll")

    assert "--set runtime=5" in service and "Storage benchmark quick in" in service
    assert f"ProtectSystem=full\nReadWritePaths={directory}\n" in poll
    assert "Description=Poll for benchmarks\n" in poll and re.search(
        r"^ExecStart=.* poll --config", poll, re.M
    )
    assert sorted(path.name for path in directory.iterdir()) == [
        "bench-agent-poll.service",
        "bench-agent-poll.timer",
    ]


def test_units_are_restored_if_one_cannot_be_written(
    host: Machine, hide_own_schedules: Schedules, server: HostileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from agent.scheduling import systemd

    allow(host, allow="quick runtime=4..30; saturation")
    host.run("schedule", "install", "--poll", "--systemd")
    server.want(make_line(host))
    host.run("poll")
    directory = Path(hide_own_schedules.root) / "etc/systemd/system"
    before = {path.name: path.read_text() for path in directory.iterdir()}
    replace_file = systemd.replace_file

    def fail(path: str, text: str, *, mode: int) -> None:
        if path.endswith("saturation.timer"):
            raise OSError(30, "Read-only file system")
        replace_file(path, text, mode=mode)

    monkeypatch.setattr(systemd, "replace_file", fail)
    server.want(
        make_line(host, at_minute=0), make_line(host, profile="saturation", parameters={}), version="cd34"
    )
    ended = host.run_json("poll")

    assert "Read-only file system" in ended["schedule"]["problem"]
    after = {path.name: path.read_text() for path in directory.iterdir()}
    after.pop("bench-agent-saturation.service", None)
    assert after == before


@pytest.mark.parametrize(
    ("kind", "name", "reason"),
    [
        (
            "--cron",
            "a\\b",
            "contains a backslash or control character, which cron versions handle differently",
        ),
        ("--cron", "x" * 900, "characters, the limit of cron is 998"),
        ("--systemd", "a\x01b", "contains a control character, which units do not support"),
    ],
)
def test_line_that_cannot_be_quoted_is_refused_alone(
    host: Machine, table: Path, server: HostileServer, kind: str, name: str, reason: str
) -> None:
    parts = [name[:200], *(name[start : start + 200] for start in range(200, len(name), 200))]
    place = host.directory.joinpath(*parts)
    place.mkdir(parents=True)
    allow(host, allow="quick runtime=4..30; saturation", directories=f"{host.directory}, {place}")
    host.run("schedule", "install", "--poll", kind)
    server.want(make_line(host, directory=str(place)), make_line(host, profile="saturation", parameters={}))

    ended = host.run_json("poll")

    (refused,) = ended["schedule"]["refused"]
    assert refused["profile"] == "quick"
    assert reason in refused["reason"]
    assert ended["schedule"]["installed"] == ["saturation"]
    assert ended["schedule"]["problem"] is None
    assert [each["profile"] for each in server.schedule] == ["saturation"]


class Killed(BaseException):
    """The agent was killed."""


def test_adoption_that_was_killed_is_reported_by_the_next_one(
    host: Machine, table: Path, server: HostileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    adopt(host, server, per_day="4")
    server.want(make_line(host, at_minute=0), version="cd34")
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr("agent.requests.adopt_schedule.report_schedules", Mock(side_effect=Killed))
        host.run("poll")
    assert [each["at_minute"] for each in server.schedule] == [137]

    host.run("poll")

    stored = json.loads((host.spool / "adoption.json").read_text())
    (previous,) = map(read_mark, stored["previous"])
    assert previous is not None and previous.at_minute == 137
    assert [each["at_minute"] for each in server.schedule] == [0]
    assert [each["version"] for each in server.adoptions[-2:]] == ["ab12", "cd34"]
    assert (len(stored["changed_at"]), stored["is_changing"]) == (2, False)
    count = len(server.seen)
    host.run("poll")
    assert [seen.method for seen in server.seen[count:]] == ["POST"]


@pytest.mark.parametrize("instant", range(1, 12))
def test_adoption_of_timers_that_was_killed_is_completed_by_the_next_one(
    host: Machine,
    hide_own_schedules: Schedules,
    server: HostileServer,
    monkeypatch: pytest.MonkeyPatch,
    instant: int,
) -> None:
    """Each command of systemctl, and each change of a file, is an instant."""
    from agent.scheduling import systemd

    root, enabled = Path(hide_own_schedules.root), set()
    (root / "run/systemd/system").mkdir(parents=True)
    (root / "bin").mkdir()
    (root / "bin/systemctl").symlink_to("/bin/true")
    allow(host, allow="quick; saturation")
    host.run("schedule", "install", "--poll", "--systemd")
    server.want(make_line(host, parameters={}))
    host.run("poll")
    left = iter(range(instant - 1, -100, -1))

    def happen(act: Callable[..., Any]) -> Callable[..., Any]:
        def act_or_die(*arguments: Any, **options: Any) -> Any:
            if next(left) == 0:
                raise Killed
            return act(*arguments, **options)

        return act_or_die

    def run_systemctl(units: systemd.Units, *arguments: str) -> list[str]:
        if "disable" in arguments:
            enabled.discard(arguments[-1])
        elif "--now" in arguments:
            enabled.add(arguments[-1])
        return []

    for name in ("replace_file", "_remove"):
        monkeypatch.setattr(systemd, name, happen(getattr(systemd, name)))
    monkeypatch.setattr(systemd, "_run_systemctl", happen(run_systemctl))
    server.want(make_line(host, profile="saturation", parameters={}), version="cd34")
    with contextlib.suppress(Killed):
        host.run("poll")
    host.run("poll")

    names = sorted(path.name for path in (root / "etc/systemd/system").iterdir() if path.is_file())
    assert names == [
        f"bench-agent-{name}.{kind}" for name in ("poll", "saturation") for kind in ("service", "timer")
    ]
    assert enabled == {"bench-agent-saturation.timer"}
    assert [each["profile"] for each in server.schedule] == ["saturation"]
    assert server.adoptions[-1]["version"] == "cd34"


def test_reasons_of_40_refused_lines_are_reported(host: Machine, table: Path, server: HostileServer) -> None:
    allow(host)
    server.want(*(make_line(host, profile=f"p{number}") for number in range(41)))

    host.run("poll")

    assert len(server.adoptions[-1]["refused"]) == 40


def test_scheduled_run_adopts_afterwards(host: Machine, table: Path, server: HostileServer) -> None:
    allow(host)
    server.want(make_line(host))

    assert host.measure().returncode == 0
    assert len(list_crontab(table)) == 2


def test_wanted_installed_and_refused_schedules_are_shown(
    host: Machine, table: Path, server: HostileServer
) -> None:
    allow(host)
    server.want(make_line(host), make_line(host, profile="saturation"))
    host.run("poll")

    shown, status = host.run("schedule", "show").stdout, host.run("status").stdout

    assert re.search(r"^cron +quick in .* every 6 h, from the server; next ", shown, re.M)
    for text in (shown, status):
        assert f"wanted   quick in {host.directory} every 6 h, at 02:17" in text
        assert "refused  saturation: the profile is not in [schedule] allow" in text
    check = host.run("check").stdout
    assert f"adopts quick in {host.directory}; at most 24 runs in 24 h" in check


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"allow": "nope"}, "[schedule] allow: unknown profile"),
        ({"per_day": "300"}, "[schedule] per_day: 300 is not a number from 1 to 288"),
        ({"from_server": "perhaps"}, "[schedule] from_server = perhaps: use yes or no"),
        ({"quiet_hours": "8-9"}, "[schedule] quiet_hours"),
    ],
)
def test_wrong_section_is_named(host: Machine, settings: dict[str, str], message: str) -> None:
    allow(host, **settings)

    ended = host.run("poll")

    assert ended.returncode == 2
    assert message in ended.stderr


def test_poll_is_scheduled_once_and_not_reported(host: Machine, table: Path, server: HostileServer) -> None:
    first = host.run("schedule", "install", "--poll", "--cron", "--every", "10m")
    lines = list_crontab(table)
    host.run("schedule", "install", "--poll", "--cron", "--every", "1h", "--at", "00:07")

    assert first.returncode == 0
    assert re.fullmatch(r"(\d+,){5}\d+ \* \* \* \* .* poll --quiet --config .*/agent\.ini", lines[1])
    assert list_crontab(table)[1].startswith("7 * * * * ")
    assert server.schedule == []
    assert "cron     poll every 1 h; next " in host.run("schedule", "show").stdout
    assert host.run("uninstall", "--dry-run").stdout.count("poll every 1 h") == 1
    host.run("schedule", "remove", "--profile", "poll")
    assert list_crontab(table) == []


@pytest.mark.parametrize("options", [("--profile", "quick"), ("--splay", "5m"), ("--set", "runtime=5")])
def test_options_of_a_run_are_refused_for_the_poll(host: Machine, options: tuple[str, ...]) -> None:
    ended = host.run("schedule", "install", "--poll", "--cron", *options)

    assert ended.returncode == 2
    assert f"{options[0]} cannot be used with --poll" in ended.stderr


def test_schedule_is_reported_to_a_server_of_an_earlier_version(
    host: Machine, table: Path, server: HostileServer
) -> None:
    server.script.append(replies.reply_problem(400, "value-invalid"))

    host.install()

    assert server.schedule == [
        {"profile": "quick", "every_s": 21600, "splay_s": 0, "directory": str(host.directory)}
    ]
