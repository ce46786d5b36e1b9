"""Docker Compose as docs/operations.md describes it, block by block, on a Docker engine: `make container-test`.

Not collected by `make test`; skipped without an engine. The tests are one installation, in the order of the file: it
has a name, images and volumes of its own, which are removed at the end. Ports are free ones; all other words of the
blocks are run as they are.
"""

import http.client
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from benchapp.operation.embedded.child import spawn, stop, wait_until
from tests.browser.conftest import CHROMIUM, FLAGS
from tests.browser.watch import PATIENCE_MS
from tests.envelopes import pack_envelope
from tests.ports import find_free_port
from tests.servers import ROOT, wait_for
from tests.test_packaging import VERSION

NAME = "container-test"
HOST = "bench.example.com"
PASSWORD = "correct-horse-battery-staple"
# A busy machine starts the containers in a minute.
PATIENCE_S = 300
# Signals from inside: Docker does not start what `docker kill` ended.
KILLS = {"web": "kill -9 -1", "worker": "kill -9 -1", "valkey": "kill 1", "postgres": "kill -QUIT 1"}
# What makes Caddy of the documentation a private one; certificates come from its own authority.
CADDY_OPTIONS = """{{
	admin off
	http_port {http_port}
	https_port {https_port}
	local_certs
	skip_install_trust
}}
"""
MIGRATION = """from django.db import migrations

class Migration(migrations.Migration):
    dependencies = [("benchapp", "{last}")]
    operations = [migrations.RunSQL("CREATE TABLE container_test ()", "DROP TABLE container_test")]
"""


def read_blocks(file: str, heading: str) -> list[str]:
    """Return the blocks of code below a heading, up to the next one."""
    text = (ROOT / file).read_text().partition(f"\n{heading}\n")[2]
    section = re.split(r"^#{2,} ", text, maxsplit=1, flags=re.MULTILINE)[0]
    return re.findall(r"^```\w*\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)


@dataclass
class Installation:
    """A clone of the checkout with its containers, a TLS proxy in front of it, and what a person keeps of it."""

    place: Path
    environment: dict[str, str]
    port: int
    https_port: int = field(default_factory=find_free_port)
    link: str = ""
    token: str = ""

    @property
    def checkout(self) -> Path:
        """Return the directory of docker-compose.yml."""
        return self.place / "benchapp"

    def follow(self, heading: str, number: int = 0) -> str:
        """Run a block of the documentation."""
        return self.run(self.localize(read_blocks("docs/operations.md", heading)[number]))

    def localize(self, block: str) -> str:
        """Replace the documented ports of the web servers."""
        return re.sub(r"\b800([01])\b", lambda found: str(self.port + int(found[1])), block)

    def run(self, script: str, *, cwd: Path | None = None) -> str:
        """Run lines of a shell until one fails; return what they printed."""
        ended = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=cwd or self.checkout,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert ended.returncode == 0, f"{script}\n{ended.stdout}"
        return ended.stdout

    def ask(self, sql: str) -> str:
        """Return the answer of PostgreSQL."""
        return self.run(f'docker compose exec -T postgres psql --username benchapp -Atqc "{sql}"').strip()

    def list_containers(self, service: str) -> list[dict[str, Any]]:
        """Return the running containers of a service."""
        lines = self.run(f"docker compose ps --format json {service}").splitlines()
        return [json.loads(line) for line in lines]

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.authority)

    @property
    def authority(self) -> Path:
        """Return the certificate of the proxy's authority."""
        return self.place / "caddy" / "pki" / "authorities" / "local" / "root.crt"

    def request(self, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        """Return status and body of a request through the TLS proxy; status 0 where nobody answers."""
        connection = http.client.HTTPSConnection(HOST, timeout=60)
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        try:
            peer = socket.create_connection(("127.0.0.1", self.https_port), timeout=60)
            connection.sock = self._tls.wrap_socket(peer, server_hostname=HOST)
            connection.request(method, path, body=body, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException):
            return 0, b""
        finally:
            connection.close()

    def can_store(self) -> bool:
        """Return whether the server reports that a result is stored soon."""
        status, text = self.request("GET", "/readyz")
        return status == 200 and json.loads(text)["can_store"] is True

    def post(self, count: int, *, during: Callable[[], object] = lambda: None) -> "Posted":
        """Post results from four clients while something happens, each until it is accepted."""
        posted = Posted([str(uuid4()) for _ in range(count)])

        def post_one(submission_id: str) -> None:
            body = pack_envelope(id=submission_id)
            deadline = time.monotonic() + PATIENCE_S
            while (status := self.request("POST", "/api/v1/submissions", body)[0]) not in (200, 202):
                posted.refused.append(status)
                assert time.monotonic() < deadline, status

        with ThreadPoolExecutor(5) as clients:
            happening = clients.submit(during)
            list(clients.map(post_one, posted.ids))
            happening.result()
        return posted

    def check_stored(self, posted: "Posted") -> None:
        """Wait until each result is one run."""
        ids = ",".join(f"'{submission_id}'" for submission_id in posted.ids)
        sql = "SELECT count(*) || ' ' || count(DISTINCT submission_id) FROM benchapp_run"
        sql += f" WHERE submission_id IN ({ids})"
        expected = f"{len(posted.ids)} {len(posted.ids)}"
        wait_for(lambda: self.ask(sql) == expected, within_s=PATIENCE_S, what="each result is one run")


@dataclass
class Posted:
    """Results that were accepted. refused: statuses of the attempts before, 0 where nobody answered."""

    ids: list[str]
    refused: list[int] = field(default_factory=list)


def release(origin: Path, number: int) -> None:
    """Commit a version, whose image has a tag of this test, to the repository that `git pull` asks."""
    compose = origin / "docker-compose.yml"
    tag = f"image: {NAME}:{VERSION}.{number}"
    compose.write_text(re.sub(rf"image: (benchapp|{NAME}):\S+", tag, compose.read_text()))
    git = ["git", "-C", str(origin), "-c", "user.name=test", "-c", "user.email=test@example.com"]
    for arguments in (["add", "--all"], ["commit", "--quiet", "--message", f"Version {number}"]):
        subprocess.run([*git, *arguments], check=True)


def find_ports() -> int:
    """Return a free port behind which another is free."""
    while True:
        port = find_free_port()
        with socket.socket() as other:
            if other.connect_ex(("127.0.0.1", port + 1)) != 0:
                return port


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """Clone the checkout with its uncommitted changes; remove containers, volumes and images at the end."""
    if subprocess.run(["docker", "info"], capture_output=True, check=False).returncode != 0:
        pytest.skip("no Docker engine answers: start one, or set DOCKER_HOST")
    for program in ("caddy", CHROMIUM or "chromium"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed: apt-get install {program}")
    place = tmp_path_factory.mktemp("containers")
    origin = place / "origin"
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).exists():
            (origin / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, origin / name)
    subprocess.run(["git", "init", "--quiet", "--initial-branch", "main", origin], check=True)
    release(origin, 1)
    subprocess.run(["git", "clone", "--quiet", origin, place / "benchapp"], check=True)
    port = find_ports()
    settings = {"COMPOSE_PROJECT_NAME": NAME, "BENCHAPP_BIND": f"127.0.0.1:{port}"}
    site = Installation(place, os.environ | settings, port)
    try:
        yield site
    finally:
        site.run("docker compose down --volumes --timeout 5")
        site.run(
            f"docker image ls --quiet --filter reference={NAME}* | sort -u | xargs -r docker image rm --force"
        )
        site.run(f"docker volume ls --quiet --filter name={NAME} | xargs -r docker volume rm")


@pytest.fixture(scope="module")
def proxy(site: Installation) -> Iterator[Callable[[str], None]]:
    """Return what runs Caddy with a Caddyfile of the documentation, after the one before."""
    running: list[subprocess.Popen[bytes]] = []

    def end() -> None:
        while running:
            stop(running.pop(), ask=signal.SIGTERM)

    def start(caddyfile: str) -> None:
        end()
        file = site.place / "Caddyfile"
        file.write_text(caddyfile)
        site.run("caddy validate --config Caddyfile --adapter caddyfile", cwd=site.place)
        options = CADDY_OPTIONS.format(http_port=find_free_port(), https_port=site.https_port)
        file.write_text(options + site.localize(caddyfile))
        command = ["caddy", "run", "--config", str(file), "--adapter", "caddyfile"]
        log = site.place / "caddy.log"
        home = {"XDG_DATA_HOME": str(site.place), "XDG_CONFIG_HOME": str(site.place / "config")}
        running.append(spawn(command, log=log, account=None, env=os.environ | home, cwd=site.place))
        wait_until(
            lambda: site.authority.exists() and site.request("GET", "/healthz")[0] == 200,
            running[0],
            name="Caddy",
            log=log,
            timeout_s=PATIENCE_S,
        )

    yield start
    end()


@pytest.fixture(scope="module")
def page(site: Installation) -> Iterator[Any]:
    """Open a page of a browser that finds the server at its public address."""
    from playwright.sync_api import sync_playwright

    rules = f"--host-resolver-rules=MAP {HOST}:443 127.0.0.1:{site.https_port}, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
    flags = [flag for flag in FLAGS if "host-resolver-rules" not in flag]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=[*flags, rules])
        context = browser.new_context(base_url=f"https://{HOST}", ignore_https_errors=True)
        context.set_default_timeout(PATIENCE_MS)
        yield context.new_page()
        browser.close()


def see_chart(site: Installation, page: Any) -> None:
    """Open the page of a series and wait until its chart has pixels.

    Chromium drops its requests when the engine adds or removes a network interface: the page is opened again then.
    """
    from playwright.sync_api import Error

    path = f"/series/{site.ask('SELECT min(id) FROM benchapp_series')}/"
    script = """() => [...document.querySelectorAll(".chart-box canvas")].some((canvas) =>
        canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.some(Boolean))"""

    def has_drawn() -> bool:
        try:
            page.goto(path, wait_until="networkidle")
        except Error:
            return False
        return bool(page.evaluate(script))

    wait_for(has_drawn, within_s=PATIENCE_S, what=f"{path} has a chart")


def test_servers_start_and_print_the_link_for_the_first_admin(site: Installation) -> None:
    *_, site.link = site.follow("## Docker Compose").splitlines()

    assert site.link.startswith(f"https://{HOST}/setup/")


def test_first_admin_signs_in_through_the_tls_proxy(site: Installation, proxy: Any, page: Any) -> None:
    proxy(read_blocks("docs/operations.md", "### TLS proxy")[0])
    # `up --wait` returned when this was true.
    assert site.can_store()

    page.goto(site.link)
    page.get_by_label("User name").fill("ada")
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_label("Repeat password").fill(PASSWORD)
    page.get_by_role("button", name="Create account").click()
    page.wait_for_url(f"https://{HOST}/")

    page.goto("/hosts/")
    page.get_by_text("Add a host without the agent").click()
    page.get_by_label("Host name").fill("poster")
    page.get_by_role("button", name="Create host and token").click()
    site.token = page.locator("#one-time-secret-value").inner_text()


def test_agent_measures_a_volume_and_its_chart_is_seen(site: Installation, page: Any) -> None:
    page.goto("/hosts/")
    page.get_by_role("button", name="Create enrollment token").click()
    site.environment["BENCH_AGENT_ENROLL_TOKEN"] = page.locator("#one-time-secret-value").inner_text()
    (block,) = read_blocks("docs/agent.md", "### In a container")
    block = re.sub(r"(--tag |--volume )(bench-\w+)", rf"\1{NAME}-\2", block)
    block = re.sub(r" bench-agent (enroll|run) ", rf" {NAME}-bench-agent \1 ", block)
    # The public address is that of the proxy, with its port and its authority.
    ca = site.place / "ca"
    ca.write_bytes(site.authority.read_bytes())
    ca.chmod(0o444)
    trust = f"--add-host {HOST}:host-gateway --volume {ca}:/ca:ro --env SSL_CERT_FILE=/ca"
    block = block.replace(f"https://{HOST}", f"https://{HOST}:{site.https_port}")
    block = block.replace("docker run", f"docker run {trust}")

    output = site.run(block, cwd=ROOT)
    wait_for(lambda: site.ask("SELECT count(*) FROM benchapp_run") == "1", within_s=PATIENCE_S, what=output)

    see_chart(site, page)


def test_restart_keeps_what_was_accepted(site: Installation) -> None:
    posted = site.post(20, during=lambda: site.run("docker compose restart"))

    site.check_stored(posted)


@pytest.mark.parametrize("service", KILLS)
def test_killed_server_starts_again_and_nothing_is_lost(site: Installation, service: str) -> None:
    kill = f"docker compose exec -T {service} sh -c '{KILLS[service]}' || [ $? = 137 ]"

    posted = site.post(40, during=lambda: site.run(kill))

    site.check_stored(posted)
    wait_for(site.can_store, within_s=PATIENCE_S, what="results can be stored")


def test_database_that_was_away_is_used_at_once(site: Installation) -> None:
    site.run("docker compose stop postgres")
    wait_for(
        lambda: (
            site.request("GET", "/readyz")[0] == 503
            and "reconnection attempt" in site.run("docker compose logs --since 5m web")
        ),
        within_s=PATIENCE_S,
        what="the pool ended its attempts",
    )

    site.run("docker compose up --detach --wait postgres")

    seconds = wait_for(lambda: site.request("GET", "/readyz")[0] == 200, within_s=PATIENCE_S, what="ready")
    print(f"ready {seconds:.1f} s after PostgreSQL")


def test_backup_is_readable_by_its_owner_only(site: Installation) -> None:
    site.follow("### Backup of the containers")

    assert (site.checkout / "history.dump").stat().st_mode & 0o777 == 0o600


def test_new_version_replaces_the_image_and_migrates_while_results_are_accepted(site: Installation) -> None:
    origin = site.place / "origin"
    *_, last = sorted((origin / "benchapp" / "migrations").glob("[0-9]*.py"))
    added = last.with_name(f"{int(last.name[:4]) + 1:04}_container_test.py")
    added.write_text(MIGRATION.format(last=last.stem))
    release(origin, 2)

    posted = site.post(100, during=lambda: site.follow("### A new version of the containers"))

    site.check_stored(posted)
    assert {each["Image"] for each in site.list_containers("web worker beat")} == {f"{NAME}:{VERSION}.2"}
    assert site.ask("SELECT to_regclass('container_test')") == "container_test"
    assert set(posted.refused) <= {0, 502, 503}


def test_way_back_reverses_migrations_and_keeps_results(site: Installation) -> None:
    runs = site.ask("SELECT count(*) FROM benchapp_run")

    site.follow("### A new version of the containers", 1)

    assert {each["Image"] for each in site.list_containers("web worker beat")} == {f"{NAME}:{VERSION}.1"}
    assert site.ask("SELECT to_regclass('container_test')") == ""
    assert site.ask("SELECT count(*) FROM benchapp_run") == runs
    assert site.can_store()


def test_replicas_share_the_work_and_one_may_fail(site: Installation, proxy: Any) -> None:
    del site.environment["BENCHAPP_BIND"]
    site.follow("### Replicas")
    proxy(read_blocks("docs/operations.md", "### Replicas")[1])

    first, _ = site.list_containers("web")
    posted = site.post(40, during=lambda: site.run(f"docker stop {first['Name']}"))

    assert len(site.list_containers("worker")) == 2
    # A request on a connection that closes; the agent sends it again.
    assert set(posted.refused) <= {502}
    site.check_stored(posted)
    site.run("docker compose up --detach --wait")
    assert len(site.list_containers("web")) == 2


def test_proxy_is_still_trusted_after_down_and_up(site: Installation) -> None:
    site.run("docker compose down")
    site.run("docker compose up --detach --wait")

    assert site.request("GET", "/sign-in/")[0] == 200


def test_stop_with_results_in_flight_loses_nothing(site: Installation) -> None:
    posted = site.post(200)

    site.run("docker compose stop")
    site.run("docker compose up --detach --wait")

    site.check_stored(posted)


def test_backup_is_restored_into_an_empty_volume(site: Installation, page: Any) -> None:
    site.follow("### Backup of the containers")
    runs = site.ask("SELECT count(*) FROM benchapp_run")
    site.run("docker compose down --volumes")

    site.follow("### Backup of the containers", 1)

    assert site.ask("SELECT count(*) FROM benchapp_run") == runs
    assert site.can_store()
    see_chart(site, page)
