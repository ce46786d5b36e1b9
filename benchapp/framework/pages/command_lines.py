"""Command lines to copy from a page."""

from collections.abc import Mapping
from shlex import quote
from typing import Any

from django.conf import settings

from benchapp.storage.agent_archive import read_agent_archive, read_agent_version


def list_first_steps(base_url: str) -> dict[str, Any]:
    """Return the commands for an empty server."""
    return {
        "here": "make up",
        "agent": list_agent_commands(base_url),
        "curl": "fio --output-format=json job.fio | curl --data-binary @-"
        f' -H "Authorization: Bearer $BENCHAPP_TOKEN" {quote(f"{base_url}/api/v1/fio?volume_type=gp3")}',
    }


def list_agent_commands(base_url: str, enrollment_token: str = "ENROLLMENT_TOKEN") -> tuple[str, ...]:
    """Return the commands that set up the agent: download, verify, enroll, run once, schedule."""
    # The token is passed in the environment: arguments are visible to all users of the host.
    return (
        f"curl -fsS -o bench-agent.pyz {quote(f'{base_url}/agent/bench-agent.pyz')}",
        # Removed on a mismatch, so that the following lines fail if all are pasted together.
        f"echo '{read_agent_archive()[1]}  bench-agent.pyz' | sha256sum --check || rm bench-agent.pyz",
        f"BENCH_AGENT_ENROLL_TOKEN={quote(enrollment_token)} python3 bench-agent.pyz enroll {quote(base_url)}",
        "python3 bench-agent.pyz run --profile quick --directory /srv/storage-to-test",
        (
            "python3 bench-agent.pyz schedule install --cron --every 6h --splay 10m --profile quick"
            " --directory /srv/storage-to-test"
        ),
    )


def list_update_commands(base_url: str, installation: str) -> tuple[str, ...]:
    """Return the commands that bring an agent to the version of this server; () for an unknown kind of installation."""
    version, new = read_agent_version(), "bench-agent.pyz.new"
    verify = f"echo '{read_agent_archive()[1]}  {new}' | sha256sum --check"
    commands: Mapping[str, tuple[str, ...]] = {
        "checkout": ("git pull",),
        "container": ("docker build --file packaging/container/Dockerfile --tag bench-agent dist",),
        "deb": (f"apt-get install ./bench-agent_{version}_all.deb",),
        "rpm": (f"dnf install ./bench-agent-{version}-1.noarch.rpm",),
        "wheel": (f"pip install --upgrade ./bench_agent-{version}-py3-none-any.whl",),
        # Renamed at the end: agents that run meanwhile go on with the file that they were started from.
        "zipapp": (
            f"curl -fsS -o {new} {quote(f'{base_url}/agent/bench-agent.pyz')}",
            f"{verify} && chmod 0755 {new} && mv {new} bench-agent.pyz",
        ),
    }
    return commands.get(installation, ())


def link_chart_image(address: str) -> str:
    """Return the address of the image of a chart from that of its data: /api/v1/charts/NAME.png with the same query."""
    path, _, query = address.partition("?")
    return f"/api/v1/charts/{path.rpartition('/')[2]}.png?{query}"


def format_curl_command(url: str, *, is_personal: bool = False) -> str:
    """Return the curl command for the data of a page; is_personal: needs a token even with BENCHAPP_PUBLIC_READ."""
    # No token is needed where everybody may read.
    token = "" if settings.PUBLIC_READ and not is_personal else ' -H "Authorization: Bearer $BENCHAPP_TOKEN"'
    return f"curl -fsS{token} {quote(url)}"
