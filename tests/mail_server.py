"""A mail server for tests: speaks enough SMTP on loopback, and keeps what it was given."""

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage


@dataclass
class Delivered:
    """One letter: the envelope's addresses, and the message as it came over the wire."""

    sender: str
    recipients: list[str]
    raw: bytes

    @property
    def message(self) -> EmailMessage:
        return message_from_bytes(self.raw, policy=policy.default)  # type: ignore[return-value]

    def part(self, subtype: str) -> str:
        body = self.message.get_body((subtype,))
        assert body is not None
        return str(body.get_content())


@dataclass
class MailServer:
    """What was delivered, and how to behave. answers: to a command, instead of 250; drops_after: a command."""

    port: int
    letters: list[Delivered] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    answers: dict[str, str] = field(default_factory=dict)
    drops_after: str = ""


class _Handler(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        server: MailServer = self.server.mail  # type: ignore[attr-defined]
        sender, recipients = "", list[str]()
        self._say("220 test")
        while line := self.rfile.readline().decode().strip():
            verb = line.split(" ")[0].split(":")[0].upper()
            server.commands.append(line)
            answer = server.answers.get(verb)
            if verb == "MAIL":
                sender = line.partition("<")[2].partition(">")[0]
            elif verb == "RCPT" and answer is None:
                recipients.append(line.partition("<")[2].partition(">")[0])
            elif verb == "DATA" and answer is None:
                self._say("354 go on")
                server.letters.append(Delivered(sender, recipients, self._read_data()))
            if verb == server.drops_after:
                return
            self._say(answer or ("221 bye" if verb == "QUIT" else "250 fine"))
            if verb == "QUIT":
                return

    def _read_data(self) -> bytes:
        lines = []
        while (line := self.rfile.readline()) not in (b".\r\n", b""):
            lines.append(line.removeprefix(b"."))
        return b"".join(lines)

    def _say(self, text: str) -> None:
        self.wfile.write(f"{text}\r\n".encode())


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True


@contextmanager
def serve_mail() -> Iterator[MailServer]:
    """Run a mail server on a free port of loopback."""
    with _Server(("127.0.0.1", 0), _Handler) as server:
        mail = MailServer(server.server_address[1])
        server.mail = mail  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield mail
        finally:
            server.shutdown()
            thread.join()
