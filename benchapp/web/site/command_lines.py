"""Command lines to copy from a page."""

from dataclasses import dataclass
from shlex import quote

from django.conf import settings

from benchapp.agent_archive import read_agent_archive


@dataclass(frozen=True, slots=True)
class FirstSteps:
    """Commands for the first results."""

    here: str
    agent: tuple[str, ...]
    curl: str


def list_first_steps(base_url: str) -> FirstSteps:
    """Return the commands for an empty server."""
    return FirstSteps(
        here="make up",
        agent=list_agent_commands(base_url),
        curl=(
            "fio --output-format=json job.fio | curl --data-binary @-"
            f' -H "Authorization: Bearer $BENCHAPP_TOKEN" {quote(f"{base_url}/api/v1/fio?volume_type=gp3")}'
        ),
    )


def list_agent_commands(base_url: str, enrollment_token: str = "ENROLLMENT_TOKEN") -> tuple[str, ...]:
    """Return the commands that set up the agent: download, verify, enroll, run once, schedule."""
    # The token is passed in the environment: arguments are visible to all users of the host.
    return (
        f"curl -fsS -o bench-agent.pyz {quote(f'{base_url}/agent/bench-agent.pyz')}",
        # Removed on a mismatch, so that the following lines fail if all are pasted together.
        f"echo '{read_agent_archive().digest}  bench-agent.pyz' | sha256sum --check || rm bench-agent.pyz",
        f"BENCH_AGENT_ENROLL_TOKEN={quote(enrollment_token)} python3 bench-agent.pyz enroll {quote(base_url)}",
        "python3 bench-agent.pyz run --profile quick --directory /srv/storage-to-test",
        (
            "python3 bench-agent.pyz schedule install --cron --every 6h --splay 10m --profile quick"
            " --directory /srv/storage-to-test"
        ),
    )


def link_chart_image(address: str) -> str:
    """Return the address of the image of a chart from that of its data: /api/v1/charts/NAME.png with the same query."""
    path, _, query = address.partition("?")
    return f"/api/v1/charts/{path.rpartition('/')[2]}.png?{query}"


def format_curl_command(url: str, *, is_personal: bool = False) -> str:
    """Return the curl command for the data of a page; is_personal: needs a token even with BENCHAPP_PUBLIC_READ."""
    # No token is needed where everybody may read.
    token = "" if settings.PUBLIC_READ and not is_personal else ' -H "Authorization: Bearer $BENCHAPP_TOKEN"'
    return f"curl -fsS{token} {quote(url)}"
