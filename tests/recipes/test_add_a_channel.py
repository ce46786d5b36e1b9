"""The recipe "Add a channel of notices": one that posts JSON to a chat."""

import json
from pathlib import Path

from tests.hook_server import serve_hook
from tests.recipes import Tree

FOLDER = "benchapp/notices/channels/matrix"
TRANSPORT = '''"""Messages as texts of Matrix."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from benchapp.notices.channels.transport import Message, render_text
from benchapp.notices.channels.posting import PostingTransport


class MatrixTransport(PostingTransport):
    """A room, by its bridge for webhooks."""

    address_help = "address of a Matrix bridge"

    def render(self, messages: Sequence[Message], *, at: datetime) -> dict[str, Any]:
        """Return the messages as one text."""
        return {"msgtype": "m.text", "body": render_text(messages)}


TRANSPORT: Final = MatrixTransport()
'''
# What the form and the API offer, what is refused, what pages show of an address, and what is sent.
SCRIPT = """
import json, sys
from django.utils import timezone
from benchapp.notices.api import SubscriptionInput
from benchapp.framework.write.conflicts import BadValue
from benchapp.models import Subscription
from benchapp.models.subscription import hide_secret
from benchapp.notices.channels.transport import make_test_message
from benchapp.notices.channels.transport import get_transport
from benchapp.notices.write.subscriptions import check_subscription
from benchapp.notices.pages import SubscriptionForm

address = sys.argv[1]
form = SubscriptionForm()
try:
    check_subscription(Subscription(channel="matrix", address="ftp://x"))
except BadValue as error:
    refused = error.field
subscription = Subscription(channel="matrix", address=address)
check_subscription(subscription)
message = make_test_message("everything", base_url="")
print(json.dumps({
    "label": dict(form.fields["channel"].choices)["matrix"],
    "help": form.fields["address"].help_text,
    "is_in_api": "matrix" in SubscriptionInput().fields["channel"].choices,
    "refused": refused,
    "shown": hide_secret("matrix", address),
    "outcome": get_transport("matrix").send(subscription, [message], message_id="m-1", at=timezone.now()),
}))
"""


def test_channel_is_a_folder_and_a_line(tmp_path: Path) -> None:
    tree = Tree(tmp_path, recipe="Add a channel of notices")

    tree.insert(
        "benchapp/models/subscription.py", '    MATRIX = "matrix", "Matrix"\n', before="    APPRISE = "
    )
    tree.create(f"{FOLDER}/__init__.py", '"""Notices to Matrix."""\n')
    tree.create(f"{FOLDER}/transport.py", TRANSPORT)
    tree.make_migration("matrix")

    with serve_hook() as hook:
        allowed = {"BENCHAPP_WEBHOOK_ALLOW_PRIVATE": "127.0.0.1/32", "BENCHAPP_WEBHOOK_PORTS": str(hook.port)}
        shown = json.loads(tree.run_script(SCRIPT, hook.url, **allowed))

    assert "address of a Matrix bridge" in shown.pop("help")
    assert shown == {
        "label": "Matrix",
        "is_in_api": True,
        "refused": "address",
        "shown": f"http://127.0.0.1:{hook.port}/…",
        "outcome": "delivered: answered 204",
    }
    assert "Test notification" in json.loads(hook.requests[0].body)["body"]
    assert tree.changed == {"benchapp/models/subscription.py"}
