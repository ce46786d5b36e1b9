"""What to compare with, and the answer of the server, which decides."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any, Mapping, Sequence
from urllib.parse import urlencode

from agent.delivery.client import Client, Response
from agent.exit_codes import AgentError, CannotMeasure, ConfigurationError, ExitCode, TryLater
from agent.gating import RUNS_MAXIMUM

OUTCOMES: Mapping[str, ExitCode] = {
    "passed": ExitCode.OK,
    "regressed": ExitCode.REGRESSED,
    "undecided": ExitCode.UNDECIDED,
}
# The largest BENCHAPP_UNPACKED_LIMIT_MIB of a server.
_OUTPUT_MAXIMUM_BYTES = 512 * 2**20


@dataclass(frozen=True)
class GateRequest:
    """The parameters of the server's gate, as text; those that are not given have the server's defaults."""

    parameters: Mapping[str, str]

    def check(self, client: Client) -> None:
        """Ask for the gate of no run: finds a wrong parameter, address or token before anything is measured."""
        response = client.request("GET", self._make_path(0, ()))
        if response.status != 404 or (response.body or {}).get("code") != "not-found":
            raise _describe_refusal(response)

    def ask(self, client: Client, run_ids: Sequence[int]) -> Mapping[str, Any]:
        """Return the server's answer about runs that it has stored; ConfigurationError if they are too many."""
        # A file can hold several runs: their number is known only now.
        if len(run_ids) > RUNS_MAXIMUM:
            raise ConfigurationError(
                f"{len(run_ids)} runs are stored, but the gate compares at most {RUNS_MAXIMUM}: submit fewer per build"
            )
        path: str | None = self._make_path(run_ids[0], run_ids[1:])
        gate: dict[str, Any] = {}
        # A run with many series has several pages of rows.
        while path:
            response = client.request("GET", path)
            body = response.body or {}
            if response.status != 200 or body.get("outcome") not in OUTCOMES:
                raise _describe_refusal(response)
            gate = {**body, "rows": [*gate.get("rows", ()), *body.get("rows", ())]}
            path = body.get("next")
        return gate

    def _make_path(self, run_id: int, further_ids: Sequence[int]) -> str:
        further = {"runs": ",".join(map(str, further_ids))} if further_ids else {}
        query = urlencode({**self.parameters, **further})
        return f"/api/v1/runs/{run_id}/gate" + (f"?{query}" if query else "")


def read_gate_request(arguments: argparse.Namespace) -> GateRequest:
    """Return the request that the options describe; the server checks baseline and metrics."""
    parameters = {
        "baseline": arguments.baseline,
        "metric": arguments.metric,
        "max_regression": _read_share(arguments.max_regression, "--max-regression"),
        "error_rate": _read_share(arguments.error_rate, "--error-rate"),
    }
    return GateRequest({name: text for name, text in parameters.items() if text is not None})


def _read_share(text: str | None, option: str) -> str | None:
    """Return 0.05 for 5% and for 0.05."""
    if text is None:
        return None
    number = text.strip()
    try:
        share = float(number[:-1]) / 100 if number.endswith("%") else float(number)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 10:
        raise ConfigurationError(f"{option} {text}: expected a share from 0 to 10, as 5% or 0.05")
    return repr(share)


def _describe_refusal(response: Response) -> AgentError:
    text = f"the server did not answer about the gate: {response.describe()}"
    status = response.status
    is_lost = status in (None, 200) and response.problem is not None and not response.is_permanent
    if is_lost or status in (408, 429) or (status or 0) >= 500:
        return TryLater(text)
    return ConfigurationError(text)


def read_output_file(path: str) -> bytes:
    """Return a file of fio's output; CannotMeasure if it is empty, ConfigurationError if it cannot be read or sent."""
    try:
        with open(path, "rb") as file:
            content = file.read(_OUTPUT_MAXIMUM_BYTES + 1)
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error.strerror or error}") from None
    if len(content) > _OUTPUT_MAXIMUM_BYTES:
        raise ConfigurationError(
            f"{path} has more than {_OUTPUT_MAXIMUM_BYTES} bytes, which no server accepts"
        )
    if not content.strip():
        raise CannotMeasure(f"{path} is empty: did fio print anything?")
    return content
