"""Keep secrets out of logs: whatever a line came from, addresses that are keys, tokens and passwords are not in it."""

import logging
import re
from typing import Final

import structlog

MASK: Final = "***"
_SECRETS: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        # Shared studies and one-time links, also inside a query (next=%2Fsetup%2F…), also mistyped.
        r"""(?P<kept>(?:/|%2f)(?:shared|setup|confirm-address|reset-password|account(?:/|%2f)email)(?:/|%2f))[^/\s?\#&"'<>]+""",
        # A token of ours; its public part says which.
        r"(?P<kept>\bbench_[a-z0-9]{12}_)[a-z0-9_-]+",
        r"""(?P<kept>\bauthorization\b["':=\s,b]+(?:bearer|basic|token)\s+)[^\s"',]+""",
        r"""(?P<kept>[?&;](?:\w*token|\w*secret|\w*key|password|signature)=)[^&\s"'\#]+""",
        # Incoming webhooks of chats are a key as a whole.
        r"(?P<kept>\bhooks\.slack\.com/)[^\s\"']+",
        # The password in the address of a database, a broker or a mail server.
        r"(?P<kept>://[^/\s:@\"']*:)[^/\s@\"']+(?=@)",
        # 32 random bytes, as every secret of ours is: in the message of an exception, in SQL.
        r"(?P<kept>(?<![\w-]))[\w-]{43}(?![\w-])",
    )
)


def mask_secrets(text: str) -> str:
    """Return the text with a mask in place of each secret."""
    for pattern in _SECRETS:
        text = pattern.sub(rf"\g<kept>{MASK}", text)
    return text


class MaskingFormatter(structlog.stdlib.ProcessorFormatter):
    """Masks the finished line, tracebacks and all: a filter would see neither those nor what structlog still adds."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line without secrets."""
        return mask_secrets(super().format(record))
