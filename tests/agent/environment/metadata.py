"""A metadata service as documented by EC2, Google Cloud and Azure."""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

AZURE_BODY = {
    "vmSize": "Standard_D4s_v5",
    "location": "westeurope",
    "zone": "2",
    "publicKeys": [{"keyData": "ssh-rsa sesame"}],
    "subscriptionId": "sesame",
}


class Metadata(ThreadingHTTPServer):
    """A metadata service: the clouds that it imitates, and the requests that it got."""

    daemon_threads = True

    def __init__(self, *clouds: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.clouds = clouds
        self.seen: list[tuple[str, str]] = []
        self.body: str | None = None

    @property
    def address(self) -> tuple[str, int]:
        return ("127.0.0.1", self.server_port)


class _Handler(BaseHTTPRequestHandler):
    server: Metadata

    def do_PUT(self) -> None:
        self.server.seen.append(("PUT", self.path))
        is_asked_rightly = self.headers.get("X-aws-ec2-metadata-token-ttl-seconds") == "60"
        known = "ec2" in self.server.clouds and self.path == "/latest/api/token"
        self.answer("AQAE-token==" if known and is_asked_rightly else None)

    def do_GET(self) -> None:
        self.server.seen.append(("GET", self.path))
        body = _EC2.get(self.path)
        if body is not None and "ec2" in self.server.clouds:
            is_trusted = self.headers.get("X-aws-ec2-metadata-token") == "AQAE-token=="
            return self.answer(body if is_trusted else None, refusal=401)
        body = _GCP.get(self.path)
        if body is not None and "gcp" in self.server.clouds:
            is_trusted = self.headers.get("Metadata-Flavor") == "Google"
            return self.answer(body if is_trusted else None, refusal=403, flavor="Google")
        if self.path.startswith("/metadata/instance/compute?api-version=") and "azure" in self.server.clouds:
            return self.answer(json.dumps(AZURE_BODY) if self.headers.get("Metadata") == "true" else None)
        return self.answer(None)

    def answer(self, body: str | None, *, refusal: int = 404, flavor: str | None = None) -> None:
        text = (self.server.body or body or "").encode()
        self.send_response(refusal if body is None and self.server.body is None else 200)
        if flavor:
            self.send_header("Metadata-Flavor", flavor)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: Any) -> None:
        pass


_EC2 = {
    "/latest/meta-data/instance-type": "m5.2xlarge",
    "/latest/meta-data/placement/availability-zone": "eu-central-1b",
}
_GCP = {
    "/computeMetadata/v1/instance/machine-type": "projects/4711/machineTypes/n2-standard-8",
    "/computeMetadata/v1/instance/zone": "projects/4711/zones/europe-west4-a",
}
