"""What a channel is: a check of addresses, and the way of messages to an address."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import cache
from importlib import import_module

from benchapp.models import Subscription
from benchapp.notices.channels.message import Message


class AddressRefused(Exception):
    """An address that is not allowed; the message is for the user and reveals nothing about the internal network."""


class NotDelivered(Exception):
    """A notice that was not delivered; the message is for the delivery log.

    is_final: the receiver refuses further notices. retry_after: the requested delay, None without one.
    """

    def __init__(self, message: str, *, is_final: bool = False, retry_after: timedelta | None = None) -> None:
        super().__init__(message)
        self.is_final = is_final
        self.retry_after = retry_after


class Transport:
    """One channel. Its folder has the name of a member of models.Channel, and a module transport with TRANSPORT.

    address_help: the kind of addresses, for the form. is_signed: a subscription has a secret. is_for_programs: only
    a digest joins notices.
    """

    address_help: str
    is_signed = False
    is_for_programs = False

    def check_address(self, address: str) -> None:
        """Raise AddressRefused for an address that a subscription may not have."""
        raise NotImplementedError

    def send(
        self, subscription: Subscription, messages: Sequence[Message], *, message_id: str, at: datetime
    ) -> str:
        """Send messages as one and return the outcome for the log. Raises NotDelivered.

        message_id: the same for all attempts; at: creation time of the first message.
        """
        raise NotImplementedError


@cache
def get_transport(channel: str) -> Transport:
    """Return the transport of a member of models.Channel."""
    transport: Transport = import_module(f"{__package__}.{channel}.transport").TRANSPORT
    return transport
