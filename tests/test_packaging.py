"""docker-compose.yml, Dockerfile, Makefile and .ci/run against the code: without a Docker engine.

`docker compose config` runs where the client is there; its commands run for real against the embedded servers.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from benchapp.embedded.child import read_tail, spawn, stop
from benchapp.embedded.preflight import Address, get, read_instance
from benchapp.embedded.processes import drain_command, web_command, worker_command
from tests.ports import find_free_port
from tests.stack import RUNTIME

ROOT = Path(__file__).parent.parent
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES = COMPOSE["services"]
OURS = {name: service for name, service in SERVICES.items() if service["image"] == "benchapp"}
SECRETS = {"BENCHAPP_SECRET_KEY": "s" * 50, "POSTGRES_PASSWORD": "p"}
# What a company writes into .env: the health checks must pass behind its TLS proxy too.
DOT_ENV = {
    **SECRETS,
    "BENCHAPP_PUBLIC_URL": "https://bench.example.com",
    "BENCHAPP_ALLOWED_HOSTS": "bench.example.com",
    "BENCHAPP_TRUSTED_PROXIES": "192.0.2.1",
}
# A machine that is busy with other things starts a process in half a minute.
PATIENCE_S = 120


def read_known_variables() -> set[str]:
    """Return every environment variable that the code reads."""
    names = {"DJANGO_SETTINGS_MODULE", "REMAP_SIGTERM", "PYTHONUNBUFFERED", "MALLOC_ARENA_MAX"}
    for path in (ROOT / "benchapp").rglob("*.py"):
        names.update(re.findall(r"[\"'](BENCHAPP_[A-Z_]+|DATABASE_URL|BROKER_URL)[\"']", path.read_text()))
    return names


def resolve(text: str) -> str:
    """Replace ${NAME}, ${NAME:-default} and ${NAME:?words} as compose does."""

    def replace(match: re.Match[str]) -> str:
        name, default = match[1], match[2]
        return DOT_ENV.get(name) or (default[2:] if default and default.startswith(":-") else "")

    return re.sub(r"\$\{([A-Z_]+)(:[-?][^}]*)?\}", replace, text)


def test_compose_has_the_five_servers_and_the_migration():
    assert set(SERVICES) == {"postgres", "valkey", "migrate", "web", "worker", "beat"}
    assert SERVICES["postgres"]["image"] == "postgres:18"
    assert SERVICES["postgres"]["volumes"] == ["postgres:/var/lib/postgresql"]


@pytest.mark.parametrize("name", [name for name in SERVICES if name != "migrate"])
def test_every_server_has_a_health_check_and_a_grace_period(name):
    service = SERVICES[name]

    assert service["healthcheck"]["test"][0] in ("CMD", "CMD-SHELL")
    assert service["stop_grace_period"]
    assert service["restart"] == "unless-stopped"


@pytest.mark.parametrize("name", OURS)
def test_every_variable_of_compose_is_read_by_the_code(name):
    assert set(SERVICES[name]["environment"]) <= read_known_variables()


@pytest.mark.parametrize("secret", SECRETS)
def test_secrets_are_required_and_never_written_down(secret):
    text = (ROOT / "docker-compose.yml").read_text()

    assert re.search(rf"\$\{{{secret}:\?", text)
    assert not re.search(rf"\$\{{{secret}(:-[^}}]*)?\}}", text)


def test_variables_of_the_code_are_in_the_documents():
    documented = (ROOT / "docs" / "operations.md").read_text()

    assert [name for name in sorted(read_known_variables()) if f"`{name}`" not in documented] == []


def test_addresses_of_the_servers_are_the_names_of_the_services():
    environment = SERVICES["web"]["environment"]

    assert resolve(environment["DATABASE_URL"]) == "postgresql://benchapp:p@postgres:5432/benchapp"
    assert environment["BROKER_URL"] == "redis://valkey:6379/0"
    assert SERVICES["postgres"]["environment"]["POSTGRES_USER"] == "benchapp"
    assert SERVICES["postgres"]["environment"]["POSTGRES_DB"] == "benchapp"


def test_every_setting_that_is_documented_can_be_given_to_compose():
    text = (ROOT / "docs" / "operations.md").read_text()
    documented = set(re.findall(r"^\|? ?`(BENCHAPP_\w+)`", text, re.M))

    missing = documented - set(SERVICES["web"]["environment"])

    # Of a process and its image, which compose settles, and of a developer.
    assert missing == {
        "BENCHAPP_DATA_DIR",
        "BENCHAPP_DEBUG",
        "BENCHAPP_HEARTBEAT_FILE",
        "BENCHAPP_INSTANCE_ID",
        "BENCHAPP_STATIC_ROOT",
    }


def test_postgresql_of_compose_logs_no_values():
    command = SERVICES["postgres"]["command"]

    assert command[0] == "postgres"
    assert {"log_min_error_statement=panic", "log_error_verbosity=terse"} <= set(command)


def test_the_embedded_and_the_compose_processes_are_the_same_programs():
    web, worker = SERVICES["web"]["command"], SERVICES["worker"]["command"]

    assert web_command(Address("0.0.0.0", 8000))[2:8] == web[:6]
    assert web_command(Address("0.0.0.0", 8000))[-1] == web[-1]
    assert worker_command(Path("/tmp/s"))[2:6] == worker[:4]
    assert drain_command()[1:] == ["manage.py", "drain", "--loop"]


def test_port_is_the_same_in_command_mapping_health_check_and_image():
    web = SERVICES["web"]
    dockerfile = (ROOT / "Dockerfile").read_text()

    assert web["command"][web["command"].index("--port") + 1] == "8000"
    assert resolve(web["ports"][0]) == "127.0.0.1:8000:8000"
    assert ":8000/readyz" in web["healthcheck"]["test"][-1]
    assert "EXPOSE 8000" in dockerfile
    assert ":8000/healthz" in dockerfile


def test_paths_of_the_health_checks_exist():
    from django.urls import resolve as resolve_url

    for path in re.findall(
        r":8000(/[a-z]+)", (ROOT / "docker-compose.yml").read_text() + (ROOT / "Dockerfile").read_text()
    ):
        assert resolve_url(path)


def test_worker_is_given_longer_than_its_soft_shutdown():
    from django.conf import settings

    grace_s = int(SERVICES["worker"]["stop_grace_period"].removesuffix("s"))

    assert grace_s >= settings.CELERY_WORKER_SOFT_SHUTDOWN_TIMEOUT + 10


def test_image_holds_what_the_processes_need_and_not_the_laptop_stack():
    dockerfile = (ROOT / "Dockerfile").read_text()
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    copied = {
        word for line in re.findall(r"^COPY (?!--from)(.*)$", dockerfile, re.M) for word in line.split()[:-1]
    }

    assert "uv sync --frozen --no-default-groups" in dockerfile
    assert re.search(r"^USER benchapp$", dockerfile, re.M)
    assert {f"!{path}" for path in copied} <= set(ignored)
    assert all((ROOT / path).exists() for path in copied)


def test_image_runs_the_web_process_of_compose():
    command = json.loads(re.findall(r"^CMD (\[.*\])$", (ROOT / "Dockerfile").read_text(), re.M)[-1])

    assert [part for part in command if part in SERVICES["web"]["command"]] == command


@pytest.mark.skipif(
    shutil.which("docker") is None
    or subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode != 0,
    reason="the docker client has no compose here",
)
def test_compose_client_accepts_the_file():
    subprocess.run(
        ["docker", "compose", "config", "--quiet"], cwd=ROOT, env={**os.environ, **SECRETS}, check=True
    )


def test_compose_without_its_secret_would_be_refused():
    assert "BENCHAPP_SECRET_KEY=… into .env" in SERVICES["web"]["environment"]["BENCHAPP_SECRET_KEY"]


def test_make_help_lists_every_target():
    listed = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    phony = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.M)[1].split()

    assert set(re.findall(r"^  make ([\w-]+)", listed, re.M)) == set(phony)


@pytest.mark.parametrize(
    "script", [".ci/run", "tools/bootstrap", "tools/apt-install", "tools/run-tests", "tests/vm/boot.sh"]
)
def test_scripts_can_be_run_and_parsed(script):
    path = ROOT / script

    assert os.access(path, os.X_OK)
    subprocess.run([path.read_text().splitlines()[0].split("/")[-1].split()[-1], "-n", path], check=True)


def test_ci_ends_with_the_tests():
    lines = [line for line in (ROOT / ".ci" / "run").read_text().splitlines() if line.strip()]

    assert lines[0] == "#!/usr/bin/env bash"
    assert "set -euo pipefail" in lines
    assert lines[-1] == "tools/run-tests"


def test_ci_and_make_share_the_tests_among_as_many_processes():
    script, makefile = (ROOT / "tools" / "run-tests").read_text(), (ROOT / "Makefile").read_text()

    assert "--numprocesses $(PYTEST_WORKERS) --dist loadfile" in makefile
    assert '--numprocesses "${PYTEST_WORKERS:-3}" --dist loadfile' in script
    assert re.search(r"^PYTEST_WORKERS \?= 3$", makefile, re.M)


def test_locked_javascript_has_a_sha512_for_every_package():
    lock = json.loads((ROOT / "package-lock.json").read_text())["packages"]
    vendor = json.loads((ROOT / "package.json").read_text())["vendor"]

    assert all(lock[f"node_modules/{name}"]["integrity"].startswith("sha512-") for name in vendor)


def test_no_third_party_file_is_committed():
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout

    assert not re.search(r"(^|/)(vendor|node_modules)/", tracked)


@pytest.fixture
def start():
    """Start commands of compose as they are, and stop what is left at the end."""
    processes = []

    def run(service, *, port, database, broker):
        environment = {name: resolve(str(value)) for name, value in SERVICES[service]["environment"].items()}
        environment |= {
            "DATABASE_URL": database,
            "BROKER_URL": broker,
            "BENCHAPP_HEARTBEAT_FILE": str(RUNTIME / "worker-heartbeat"),
            "BENCHAPP_INSTANCE_ID": "compose",
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }
        replaced = {
            "0.0.0.0": "127.0.0.1",
            "8000": str(port),
            "/tmp/beat-schedule": str(RUNTIME / "beat-schedule"),
        }
        command = [replaced.get(part, part) for part in SERVICES[service]["command"]]
        process = spawn(
            command, log=RUNTIME / f"compose-{service}.log", account=None, env=environment, cwd=ROOT
        )
        processes.append(process)
        return process

    yield run
    for process in processes:
        stop(process, patience_s=5)


@pytest.mark.django_db(transaction=True)
def test_commands_of_compose_start_answer_and_stop(start, valkey_server):
    from django.db import connection

    name = connection.settings_dict["NAME"]
    servers = {
        "port": find_free_port(),
        "database": os.environ["DATABASE_URL"].replace("/benchapp?", f"/{name}?"),
        "broker": valkey_server.url,
    }

    assert start("migrate", **servers).wait(PATIENCE_S) == 0, read_logs()
    running = {service: start(service, **servers) for service in ("web", "worker", "beat")}
    address = Address("127.0.0.1", servers["port"])

    wait_for(lambda: read_instance(address) == "compose", "web answers /healthz")
    wait_for(lambda: json.loads(get(address, "/readyz")[1])["status"] == "ok", "web is ready")
    wait_for((RUNTIME / "worker-heartbeat").exists, "the worker's heart beats")
    # Before that its children may still be starting: a signal would meet them in the middle of an import.
    wait_for(lambda: " ready." in (RUNTIME / "compose-worker.log").read_text(), "the worker is ready")
    wait_for(lambda: any(RUNTIME.glob("beat-schedule*")), "beat has written its schedule")
    assert [process.poll() for process in running.values()] == [None, None, None], read_logs()

    for process in running.values():
        process.send_signal(signal.SIGTERM)
    assert running["web"].wait(PATIENCE_S) == 0, read_logs()
    # Celery ends with 1 when it hands back what it has not begun.
    assert running["worker"].wait(PATIENCE_S) in (0, 1), read_logs()
    assert running["beat"].wait(PATIENCE_S) == 0, read_logs()
    assert "Traceback" not in (RUNTIME / "compose-worker.log").read_text(), read_logs()


def read_logs() -> str:
    """Return the end of what each process has said."""
    return "\n".join(read_tail(path, lines=40) for path in sorted(RUNTIME.glob("compose-*.log")))


def wait_for(claim, words: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not claim():
        assert time.monotonic() < deadline, f"not within {PATIENCE_S} s: {words}\n{read_logs()}"
        time.sleep(0.1)
