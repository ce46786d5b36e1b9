"""docker-compose.yml, Dockerfile, Makefile and .ci/run against the code: without a Docker engine.

`docker compose config` runs where the client is there; its commands run for real against the embedded servers.
"""

import argparse
import hashlib
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import ip_network
from pathlib import Path

import pytest
import yaml

from benchapp.models import State, Submission
from benchapp.operation.embedded import worker as embedded_worker
from benchapp.operation.embedded.child import read_tail, spawn, stop, wait_until
from benchapp.operation.embedded.command import add_arguments
from benchapp.operation.embedded.preflight import (
    ALLOCATOR,
    Address,
    drain_command,
    get,
    read_instance,
    reload_command,
    web_command,
    worker_command,
)
from benchapp.operation.embedded.servers import find_bundled, find_installation
from tests.clusters import make_place
from tests.envelopes import read_fio
from tests.factories import make_submission
from tests.ports import find_free_port
from tests.stack import RUNTIME

ROOT = Path(__file__).parent.parent
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES = COMPOSE["services"]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
OURS = {name: service for name, service in SERVICES.items() if "pull_policy" in service}
# Those that .env names may be absent.
OPTIONAL = {"email_url", "oidc_client_secret"}
SECRETS = dict.fromkeys(COMPOSE["secrets"].keys() - OPTIONAL, "0123456789abcdef" * 4)
# What a company writes into .env: the health checks must pass behind its TLS proxy too.
DOT_ENV = {
    "BENCHAPP_PUBLIC_URL": "https://bench.example.com",
    "BENCHAPP_ALLOWED_HOSTS": "bench.example.com",
    "BENCHAPP_TRUSTED_PROXIES": "192.0.2.1",
}
# Each is also read from the file that NAME_FILE names (benchapp/framework/env.py).
SECRET_VARIABLES = {
    "BENCHAPP_SECRET_KEY",
    "BENCHAPP_EMAIL_URL",
    "BENCHAPP_OIDC_CLIENT_SECRET",
    "DATABASE_PASSWORD",
    "BROKER_PASSWORD",
}
# A machine that is busy with other things starts a process in half a minute.
PATIENCE_S = 120


def read_known_variables() -> set[str]:
    """Return every environment variable that the code reads."""
    names = {"DJANGO_SETTINGS_MODULE", "REMAP_SIGTERM", "PYTHONUNBUFFERED", *ALLOCATOR}
    for path in (ROOT / "benchapp").rglob("*.py"):
        text = path.read_text()
        names.update(re.findall(r"[\"'](BENCHAPP_[A-Z_]+|DATABASE_URL|BROKER_URL)[\"']", text))
    return names | SECRET_VARIABLES | {f"{name}_FILE" for name in SECRET_VARIABLES}


def resolve(text: str) -> str:
    """Replace ${NAME}, ${NAME:-default} and ${NAME:+value} as compose does."""

    def replace(match: re.Match[str]) -> str:
        name, operator, word = match.groups()
        value = DOT_ENV.get(name, "")
        return {None: value, ":-": value or word, ":+": value and word}[operator]

    return re.sub(r"\$\{([A-Z_]+)(?:(:[-+])([^}]*))?\}", replace, text)


def test_processes_of_benchapp_share_one_image_of_their_version_which_is_built_once_and_never_pulled():
    assert set(OURS) == {"migrate", "web", "worker", "beat"}
    assert {service["image"] for service in OURS.values()} == {f"benchapp:{VERSION}"}
    assert {service["pull_policy"] for service in OURS.values()} == {"never"}
    assert [name for name, service in SERVICES.items() if "build" in service] == ["migrate"]


def test_logs_memory_and_temporary_files_of_every_container_are_bounded():
    for service in SERVICES.values():
        assert {"max-size", "max-file"} <= service["logging"]["options"].keys()
        assert service["mem_limit"]
        assert all("size=" in mount for mount in service.get("tmpfs", ()))


def test_servers_of_compose_are_of_the_embedded_versions():
    postgres = read_version_of(find_installation() / "bin" / "postgres")
    valkey = read_version_of(find_bundled(None))

    assert SERVICES["postgres"]["image"].split("@")[0] == f"postgres:{postgres}"
    assert SERVICES["valkey"]["image"].split("@")[0] == f"valkey/valkey:{valkey}"


def read_version_of(binary: Path) -> str:
    output = subprocess.run([binary, "--version"], capture_output=True, text=True, check=True).stdout
    return re.search(r"\d+(\.\d+)+", output)[0]


@pytest.mark.parametrize("name", SERVICES)
def test_no_container_has_capabilities_or_gains_privileges_or_runs_as_root(name):
    service = SERVICES[name]

    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert "cap_add" not in service
    assert service.get("user") == {"postgres": "postgres", "valkey": "valkey"}.get(
        name
    )  # ours: the image's USER


def test_postgresql_and_valkey_are_in_networks_of_their_own():
    networks = {name: set(service["networks"]) for name, service in SERVICES.items()}

    assert networks == {
        "postgres": {"database"},
        "valkey": {"broker"},
        "migrate": {"database"},
        "web": {"outside", "database", "broker"},
        "worker": {"outside", "database", "broker"},
        "beat": {"database", "broker"},
    }
    assert COMPOSE["networks"]["database"] == COMPOSE["networks"]["broker"] == {"internal": True}
    assert [name for name, service in SERVICES.items() if "ports" in service] == ["web"]


def test_trusted_proxy_is_the_gateway_of_the_network_of_the_web_server(monkeypatch):
    monkeypatch.setattr("tests.test_packaging.DOT_ENV", {})
    (configuration,) = COMPOSE["networks"]["outside"]["ipam"]["config"]

    gateway = next(ip_network(resolve(configuration["subnet"])).hosts())

    assert resolve(SERVICES["web"]["environment"]["BENCHAPP_TRUSTED_PROXIES"]) == str(gateway)


@pytest.mark.parametrize("name", [name for name in SERVICES if name != "migrate"])
def test_every_server_has_a_health_check_and_a_grace_period(name):
    service = SERVICES[name]

    assert service["healthcheck"]["test"][0] in ("CMD", "CMD-SHELL")
    assert service["stop_grace_period"]
    assert service["restart"] == "unless-stopped"


@pytest.mark.parametrize("name", OURS)
def test_every_variable_of_compose_is_read_by_the_code(name):
    assert set(SERVICES[name]["environment"]) <= read_known_variables()


def test_secrets_are_files_that_only_the_services_which_need_them_have():
    assert COMPOSE["secrets"] == {
        **{name: {"file": f"./secrets/{name}"} for name in SECRETS},
        **{name: {"file": f"${{BENCHAPP_{name.upper()}_FILE:-/dev/null}}"} for name in OPTIONAL},
    }
    assert set(SERVICES["postgres"]["secrets"]) == {"postgres_password", "database_password"}
    assert SERVICES["valkey"]["secrets"] == ["valkey_password"]
    assert all("postgres_password" not in service["secrets"] for service in OURS.values())


def test_every_secret_file_is_mounted_where_it_is_read():
    for service in SERVICES.values():
        read = set(re.findall(r"/run/secrets/(\w+)", json.dumps(service)))

        assert read <= set(service["secrets"])


def test_no_secret_is_in_the_environment_of_a_container():
    for service in SERVICES.values():
        secrets = {
            name: value
            for name, value in service.get("environment", {}).items()
            if re.search("PASSWORD|SECRET|TOKEN|KEY$", name)
        }

        assert all(name.endswith("_FILE") for name in secrets), secrets


def test_documents_create_every_secret_and_git_ignores_them():
    documented = (ROOT / "docs" / "operations.md").read_text()
    line = re.search(r"^for name in ([a-z_ ]+); do", documented, re.M)

    assert set(line[1].split()) == set(SECRETS)
    assert "/secrets/" in (ROOT / ".gitignore").read_text().splitlines()


def test_variables_of_the_code_are_in_the_documents():
    documented = (ROOT / "docs" / "operations.md").read_text()

    assert [name for name in sorted(read_known_variables()) if f"`{name}`" not in documented] == []


def test_every_setting_that_is_documented_can_be_given_to_compose():
    text = (ROOT / "docs" / "operations.md").read_text()
    documented = set(re.findall(r"^\|? ?`(BENCHAPP_\w+)`", text, re.M))

    given = set(SERVICES["web"]["environment"])
    missing = documented - given - {name.removesuffix("_FILE") for name in given}

    # Of a process and its image, which compose settles, and of a developer.
    assert missing == {
        "BENCHAPP_DEBUG",
        "BENCHAPP_HEARTBEAT_FILE",
        "BENCHAPP_INSTANCE_ID",
        "BENCHAPP_STATIC_ROOT",
    }


def test_postgresql_of_compose_logs_no_values():
    (script,) = SERVICES["postgres"]["command"][2:]

    assert {"log_min_error_statement=panic", "log_error_verbosity=terse"} <= set(shlex.split(script))


@pytest.mark.parametrize("password", [None, "", "secret\n"])
def test_postgresql_of_compose_starts_only_with_the_password_of_the_application(place, password):
    shell, option, script = SERVICES["postgres"]["command"]
    if password is not None:
        (place / "database_password").write_text(password)
    (place / "docker-entrypoint.sh").write_text("#!/bin/sh\necho started\n")
    (place / "docker-entrypoint.sh").chmod(0o755)

    ended = subprocess.run(
        [shell, option, script.replace("/run/secrets", str(place))],
        env={"PATH": f"{place}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )

    refusal = "secrets/database_password is empty or not readable\n"
    assert (ended.returncode, ended.stdout) == ((0, "started\n") if password else (1, refusal))


def test_the_embedded_and_the_compose_processes_are_the_same_programs():
    web, worker = SERVICES["web"]["command"], SERVICES["worker"]["command"]

    assert web_command(Address("0.0.0.0", 8000))[2:8] == web[:6]
    assert web_command(Address("0.0.0.0", 8000))[-1] == web[-1]
    for name in ("--http", "--http1-buffer-size"):
        assert _option(web_command(Address("0.0.0.0", 8000)), name) == _option(web, name)
    assert worker_command(Path("/tmp/s"))[1:] == ["-m", "benchapp.operation.embedded.worker", "/tmp/s"]
    assert worker[:4] == ["celery", "-A", embedded_worker.app.main, "worker"]
    assert _option(worker, "--pool") == embedded_worker.OPTIONS["pool"]
    for flag in ("--without-gossip", "--without-mingle"):
        assert flag in worker
        assert embedded_worker.OPTIONS[flag.removeprefix("--").replace("-", "_")] is True
    assert drain_command()[1:] == ["manage.py", "drain", "--loop"]


def test_image_has_the_servers_options_and_the_allocators_settings():
    dockerfile = (ROOT / "Dockerfile").read_text()
    (command,) = re.findall(r"^CMD (\[.*granian.*\])$", dockerfile, re.M)

    for name in ("--http", "--http1-buffer-size"):
        assert _option(json.loads(command), name) == _option(web_command(Address("0.0.0.0", 8000)), name)
    documented = (ROOT / "docs" / "operations.md").read_text()
    for name, value in ALLOCATOR.items():
        assert f"{name}={value}" in dockerfile
        assert f"`{name}` ({value})" in documented


def _option(command: list[str], name: str) -> str:
    return command[command.index(name) + 1]


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

    assert "uv sync --frozen --no-default-groups --extra parquet" in dockerfile
    assert re.search(r"^USER benchapp$", dockerfile, re.M)
    assert {f"!{path}" for path in copied} <= set(ignored)
    assert all((ROOT / path).exists() for path in copied)


@pytest.mark.skipif(
    shutil.which("docker") is None
    or subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode != 0,
    reason="the docker client has no compose here",
)
def test_compose_client_accepts_the_file():
    subprocess.run(["docker", "compose", "config", "--quiet"], cwd=ROOT, check=True)


def test_make_help_lists_every_target():
    listed = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    phony = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.M)[1].split()

    assert set(re.findall(r"^  make ([\w-]+)", listed, re.M)) == set(phony)


@pytest.mark.parametrize(
    "script",
    [
        ".ci/run",
        "tools/bootstrap",
        "tools/apt-install",
        "tools/install-chromium",
        "tools/run-js-tests",
        "tools/pin-images",
        "tests/vm/boot.sh",
    ],
)
def test_scripts_can_be_run_and_parsed(script):
    path = ROOT / script

    assert os.access(path, os.X_OK)
    subprocess.run([path.read_text().splitlines()[0].split("/")[-1].split()[-1], "-n", path], check=True)


def test_web_and_worker_of_make_dev_watch_the_code_and_not_the_logs():
    address = Address("127.0.0.1", 8000)
    reloading = [part for part in web_command(address, is_reloading=True) if part not in web_command(address)]
    worker = worker_command(Path("/tmp/beat schedule"))

    assert reloading == [
        "--reload",
        *(f"--reload-paths={ROOT / name}" for name in ("benchapp", "docs", "templates", "static")),
    ]
    assert shlex.split(reload_command(worker)[-2]) == worker
    assert reload_command(worker)[-1] == str(ROOT / "benchapp")


def test_no_third_party_file_is_committed():
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout

    assert not re.search(r"(^|/)(vendor|node_modules)/", tracked)


@pytest.fixture
def start():
    """Start commands of compose as they are, and stop what is left at the end."""
    processes = []

    for name, secret in SECRETS.items():
        (RUNTIME / name).write_text(f"{secret}\n")

    def run(service, *, port, database, broker):
        environment = {
            name: resolve(str(value)).replace("/run/secrets", str(RUNTIME))
            for name, value in SERVICES[service]["environment"].items()
        }
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
def test_commands_of_compose_start_store_a_result_and_stop(start, valkey_of_compose):
    from django.db import connection

    name = connection.settings_dict["NAME"]
    servers = {
        "port": find_free_port(),
        "database": os.environ["DATABASE_URL"].replace("/benchapp?", f"/{name}?"),
        "broker": f"redis://127.0.0.1:{valkey_of_compose.port}/0",
    }

    # As services of compose wait for it; tests/test_migrations.py migrates an old database as the role of compose.
    assert start("migrate", **servers).wait(PATIENCE_S) == 0, read_logs()
    running = {service: start(service, **servers) for service in ("web", "worker", "beat")}
    address = Address("127.0.0.1", servers["port"])

    wait_for(lambda: read_instance(address) == "compose", "web answers /healthz")
    wait_for(lambda: json.loads(get(address, "/readyz")[1])["can_store"], "the worker answers")
    wait_for((RUNTIME / "worker-heartbeat").exists, "the worker's heart beats")
    # Before that its children may still be starting: a signal would meet them in the middle of an import.
    wait_for(lambda: " ready." in (RUNTIME / "compose-worker.log").read_text(), "the worker is ready")
    wait_for(lambda: any(RUNTIME.glob("beat-schedule*")), "beat has written its schedule")
    submission = make_submission(state=State.RECEIVED, body=read_fio("16_randrw7030_json.out").encode())
    wait_for(lambda: has_state(submission, State.STORED), "beat's hint reaches the worker through the broker")
    assert [process.poll() for process in running.values()] == [None, None, None], read_logs()

    for process in running.values():
        process.send_signal(signal.SIGTERM)
    assert running["web"].wait(PATIENCE_S) == 0, read_logs()
    # Celery ends with 1 when it hands back what it has not begun.
    assert running["worker"].wait(PATIENCE_S) in (0, 1), read_logs()
    assert running["beat"].wait(PATIENCE_S) == 0, read_logs()
    assert "Traceback" not in (RUNTIME / "compose-worker.log").read_text(), read_logs()


@dataclass
class RunningValkey:
    """The broker of compose on a port of 127.0.0.1."""

    port: int
    pid: int


@pytest.fixture
def valkey_of_compose(place: Path) -> Iterator[RunningValkey]:
    """Start Valkey by the command of compose, with its password."""
    port = find_free_port()
    (place / "valkey_password").write_text(f"{SECRETS['valkey_password']}\n")
    shell, option, script = SERVICES["valkey"]["command"]
    script = script.replace("$$", "$").replace("/run/secrets", str(place))
    script = script.replace("valkey-server -", f"{find_bundled(None)} - --bind 127.0.0.1 --port {port}", 1)
    server = spawn([shell, option, script], log=place / "log", account=None, cwd=place)
    try:
        wait_until(
            lambda: "Ready to accept" in (place / "log").read_text(),
            server,
            name="Valkey",
            log=place / "log",
            timeout_s=PATIENCE_S,
        )
        yield RunningValkey(port, server.pid)
    finally:
        stop(server)


def test_valkey_of_compose_asks_for_the_password_and_has_it_in_no_argument(valkey_of_compose):
    arguments = Path(f"/proc/{valkey_of_compose.pid}/cmdline").read_bytes().decode()

    answers = [
        ask_valkey(valkey_of_compose.port, *lines)
        for lines in (["PING"], [f"AUTH {SECRETS['valkey_password']}", "PING"])
    ]

    assert answers[0].startswith("-NOAUTH")
    assert answers[1] == "+OK\r\n+PONG\r\n"
    assert "valkey-server" in arguments
    assert SECRETS["valkey_password"] not in arguments


@pytest.mark.parametrize("name", ["BROKER_PASSWORD", "BROKER_PASSWORD_FILE"])
def test_command_line_of_celery_has_the_password_of_the_broker(valkey_of_compose, place, name):
    passwords = {
        "BROKER_PASSWORD": SECRETS["valkey_password"],
        "BROKER_PASSWORD_FILE": place / "valkey_password",
    }
    environment = {"BROKER_URL": f"redis://127.0.0.1:{valkey_of_compose.port}/0", name: str(passwords[name])}

    ended = subprocess.run(
        [sys.executable, "-m", "celery", "-A", "benchapp", "purge", "--force"],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == 0, ended.stderr
    assert "No messages purged" in ended.stdout


def ask_valkey(port: int, *lines: str) -> str:
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connection:
        connection.sendall("".join(f"{line}\r\n" for line in lines).encode())
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        while part := connection.recv(4096):
            answer += part
    return answer.decode()


@pytest.fixture
def place() -> Iterator[Path]:
    """Return a directory with a path that is short enough for a socket."""
    directory = make_place("bp-")
    yield directory
    shutil.rmtree(directory)


def test_images_are_pinned_to_the_digests_that_the_registry_reports(place):
    for path in ("tools", "bin"):
        (place / path).mkdir()
    for name in ("tools/pin-images", "docker-compose.yml", "Dockerfile"):
        shutil.copy(ROOT / name, place / name)
    docker = place / "bin" / "docker"
    docker.write_text(
        '#!/bin/sh\n[ "$2" = version ] || echo sha256:$(printf %s "$6" | sha256sum | cut -d" " -f1)\n'
    )
    docker.chmod(0o755)

    for _ in range(2):
        subprocess.run(
            [place / "tools" / "pin-images"],
            env={"PATH": f"{docker.parent}:{os.environ['PATH']}"},
            capture_output=True,
            check=True,
        )

    def pin(image: str) -> str:
        return f"{image}@sha256:{hashlib.sha256(image.encode()).hexdigest()}"

    pinned = yaml.safe_load((place / "docker-compose.yml").read_text())["services"]
    bases = re.findall(r"^FROM (\S+)", (place / "Dockerfile").read_text(), re.M)
    unpinned = {name: service["image"].split("@")[0] for name, service in SERVICES.items()}
    assert {name: service["image"] for name, service in pinned.items()} == {
        name: image if name in OURS else pin(image) for name, image in unpinned.items()
    }
    assert bases == [pin("python:3.13-slim")] * 2


def read_logs() -> str:
    """Return the end of what each process has said."""
    return "\n".join(read_tail(path, lines=40) for path in sorted(RUNTIME.glob("compose-*.log")))


def has_state(submission: Submission, state: State) -> bool:
    submission.refresh_from_db()
    return submission.state == state


def wait_for(claim, words: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not claim():
        assert time.monotonic() < deadline, f"not within {PATIENCE_S} s: {words}\n{read_logs()}"
        time.sleep(0.1)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is missing")
def test_unit_of_the_server_is_valid_and_starts_what_make_up_starts(tmp_path):
    unit = (ROOT / "packaging" / "systemd" / "benchapp.service").read_text()
    # systemd-analyze wants an executable that exists.
    start = re.search(r"^ExecStart=(\S+) (.*)$", unit, re.MULTILINE)
    (tmp_path / "benchapp.service").write_text(unit.replace(start[1], sys.executable))

    verified = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(tmp_path / "benchapp.service")],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (verified.returncode, verified.stderr) == (0, "")
    options = argparse.ArgumentParser()
    add_arguments(options)
    module, *arguments = start[2].removeprefix("-m ").split()
    assert module == "benchapp.operation.embedded"
    assert not options.parse_args(arguments).exit_after_run
