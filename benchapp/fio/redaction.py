"""Remove secrets from what hosts send, before it is stored: keys, passwords and tokens by their names, and in URLs.

`agent/redaction.py` does the same on hosts; tests/data/secrets.json has the cases of both. Pure. The text is untrusted:
every pattern is bounded.
"""

import re
import string
from collections.abc import Iterator, Mapping
from typing import Any, Final

import orjson

REMOVED: Final = "(removed)"
# What each name of a secret contains; a body without any of these is not looked at further.
HINTS: Final = (
    *(b"pass", b"secret", b"token", b"signature", b"credential", b"key"),
    *(b"authorization", b"@", b"sig=", b"bench_"),
)
_OWNERS: Final = (
    "(?:access|account|api|auth|customer|encryption|master|private|s3|sas|shared|signing|storage)[_-]?"
)
_NAME: Final = (
    r"(?:password|passwd|passphrase|secret|token|signature|credential|(?<![a-z])pass(?:code)?(?![a-z])"
    rf"|{_OWNERS}key(?![a-z]))"
)
# Each name contains one of these, and begins with it, but for "key", before which it begins at most so far.
_WORDS: Final = ("pass", "secret", "token", "signature", "credential", "key")
_PREFIX_MAXIMUM: Final = 11
_QUOTE: Final = r"(?:\\{0,8}[\"']|&quot;|&#34;|&#39;)"
_FLAGS: Final = re.ASCII | re.IGNORECASE
_OWNER: Final = re.compile(rf"{_OWNERS}\Z")
_SECRET_NAME: Final = re.compile(_NAME, _FLAGS)
_ASSIGNMENT: Final = re.compile(
    rf"{_NAME}[\w.-]{{0,40}}+(?P<named>{_QUOTE}?)[ \t]{{0,20}}(?P<sign>[=:]|(?<=[\w-])[ \t](?=[^\s=:-]))[ \t]{{0,20}}",
    _FLAGS,
)
_VALUE_QUOTE: Final = re.compile(_QUOTE, _FLAGS)
_NAME_CHARACTERS: Final = "-._" + string.ascii_letters + string.digits
_LINE_END: Final = re.compile(r"[\r\n]|$")
_ESCAPED_LINE_END: Final = re.compile(r"\\+[nr]|[\r\n\"]|$")
_WORD_END: Final = re.compile(r"[\s\"']|$")
_PART_END: Final = re.compile(r"[\s\"'\\,;&<>)}\]]|$")
# Text without which a pattern matches nothing, and the pattern.
_OTHERS: Final = (
    # Of a URL; fio escapes colons in names of files, JSON slashes.
    (
        "@",
        re.compile(
            r"(?P<kept>:?\\{0,4}/\\{0,4}/)(?![^\s/@\"'<>]{0,300}\(removed)(?=[^\s/@\"'<>]{0,300}[:%])"
            r"(?P<value>[^\s/@\"'<>]{1,300})(?=@)",
            _FLAGS,
        ),
    ),
    (
        "authorization",
        re.compile(
            rf"(?P<kept>authorization{_QUOTE}?\s{{0,9}}[:=]\s{{0,9}}{_QUOTE}?(?:bearer|basic|token)\s{{1,9}})"
            r"(?P<value>[^\s\"'\\,<>]{1,4096})",
            _FLAGS,
        ),
    ),
    ("sig=", re.compile(r"(?P<kept>[?&]sig=)(?P<value>[^&\s\"'\\<>]{1,1024})", _FLAGS)),
    ("bench_", re.compile(r"(?P<kept>\bbench_[a-z0-9]{12}_)(?P<value>[\w-]{1,200})", _FLAGS)),
)
# A shorter value may be part of a number or word.
_REPEATED_MINIMUM: Final = 8
_REPEATED_MAXIMUM: Final = 100


def is_secret_name(name: str) -> bool:
    """Return whether an option, label or variable of this name has a secret as its value."""
    return _SECRET_NAME.search(name) is not None


def remove_secrets(text: str) -> str:
    """Return a text of any format with "(removed)" in place of each secret, and of other occurrences of its value."""
    values: set[str] = set()
    return _remove_values(_remove(text, values), values)


def remove_from_document(document: Any) -> Any:
    """Return a parsed JSON document without the secrets in its texts; a value found in one is removed from all."""
    values: set[str] = set()
    cleaned = _walk(document, lambda text: _remove(text, values))
    return _walk(cleaned, lambda text: _remove_values(text, values)) if values else cleaned


def remove_from_body(body: bytes, *, is_document: bool) -> bytes:
    """Return a posted body without secrets: the same bytes if it has none. is_document: JSON of ours."""
    lower = body.lower()
    is_wide = body[:2] in (b"\xff\xfe", b"\xfe\xff")
    if not is_wide and not any(hint in lower for hint in HINTS):
        return body
    if is_document:
        try:
            document = orjson.loads(body)
            cleaned = remove_from_document(document)
            return body if cleaned == document else orjson.dumps(cleaned)
        except (orjson.JSONDecodeError, orjson.JSONEncodeError, RecursionError):
            pass  # not JSON, or nested too deeply: no envelope
    # Each byte a character, so that all others stay as they are.
    encoding = "utf-16" if is_wide else "latin-1"
    try:
        text = body.decode(encoding)
    except UnicodeDecodeError:
        encoding, text = "latin-1", body.decode("latin-1")
    cleaned_text = remove_secrets(text)
    return body if cleaned_text == text else cleaned_text.encode(encoding)


def _walk(value: Any, clean: Any) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Mapping):
        return {name: _walk_member(name, part, clean) for name, part in value.items()}
    if isinstance(value, list):
        return list(_walk_list(value, clean))
    return value


def _walk_member(name: str, part: Any, clean: Any) -> Any:
    if isinstance(part, str) and is_secret_name(name):
        # As an assignment, so that other occurrences of the value are found.
        return clean(f"{name}={part}")[len(name) + 1 :] if "\n" not in part else REMOVED
    return _walk(part, clean)


def _walk_list(parts: list[Any], clean: Any) -> Iterator[Any]:
    """Yield the parts of a command line or list; the argument after `--NAME` is its value."""
    is_value = False
    for part in parts:
        is_option = isinstance(part, str) and part.startswith("-")
        if isinstance(part, str) and is_value and not is_option:
            yield clean(f"password={part}")[len("password=") :]
        elif is_option and "=" in part and is_secret_name(part.partition("=")[0]):
            # The whole argument, also behind a space.
            yield "--" + clean(part.lstrip("-")) if part.startswith("--") else clean(part)
        else:
            yield _walk(part, clean)
        is_value = is_option and "=" not in part and is_secret_name(part)


def _remove(text: str, values: set[str]) -> str:
    parts: list[str] = []
    done = 0
    lower = (
        text.lower() if text.isascii() else "".join(each.lower() if each.isascii() else each for each in text)
    )
    for found in _find_assignments(text, lower):
        start = found.end()
        if start < done:
            continue
        quote = _VALUE_QUOTE.match(text, start)
        value_start = quote.end() if quote else start
        # Before the search for an end: a text of such values would be searched to its end for each.
        if text.startswith((REMOVED[:-1], "${", "$(", "[", "{"), value_start):
            continue
        if not quote and found["sign"].isspace() and not _is_option(text, found.start()):
            continue
        end = _find_end(text, found, quote)
        value = text[value_start:end]
        if not value:
            continue
        values |= _list_spellings(value)
        parts += (text[done:value_start], _mark(found, quote))
        done = end
    text = "".join((*parts, text[done:]))
    for hint, pattern in _OTHERS:
        if hint in lower:
            values.update(found["value"] for found in pattern.finditer(text))
            text = pattern.sub(rf"\g<kept>{REMOVED}", text)
    values.discard(REMOVED)
    return text


def _find_assignments(text: str, lower: str) -> Iterator[re.Match[str]]:
    """Yield what looks like a secret's name with a value: a match at each of a few words, the only fast one."""
    places = {place: word for word in _WORDS for place in _find_all(lower, word)}
    for place in sorted(places):
        start = place
        if places[place] == "key":
            owner = _OWNER.search(lower, max(place - _PREFIX_MAXIMUM, 0), place)
            if owner is None:
                continue
            start = owner.start()
        if found := _ASSIGNMENT.match(text, start):
            yield found


def _find_all(text: str, word: str) -> Iterator[int]:
    place = text.find(word)
    while place >= 0:
        yield place
        place = text.find(word, place + 1)


def _list_spellings(value: str) -> set[str]:
    """Return a value as it is, without the escapes of JSON, and with them."""
    plain = value.replace('\\"', '"').replace("\\/", "/").replace("\\\\", "\\")
    return {value, plain, plain.replace("\\", "\\\\").replace('"', '\\"')}


def _mark(found: re.Match[str], quote: re.Match[str] | None) -> str:
    """Return the mark; in quotes for a bare value of JSON, which it would not be otherwise."""
    return f"{found['named']}{REMOVED}{found['named']}" if found["named"] and not quote else REMOVED


def _find_end(text: str, found: re.Match[str], quote: re.Match[str] | None) -> int:
    """Return where a value ends: at its closing quote, or at the end of its line, argument or part."""
    start = found.end()
    if quote:
        return _find_closing(text, quote)
    if found["named"]:
        return _search_end(_PART_END, text, start)
    before = text[max(found.start() - 70, 0) : found.start()]
    head = before.rstrip(_NAME_CHARACTERS)
    name = before[len(head) :]
    if name.startswith("--"):
        return _search_end(_WORD_END, text, start)
    if found["sign"] == "=" and head.endswith("\\") and name[:1] in ("n", "r"):
        return _search_end(_ESCAPED_LINE_END, text, start)
    line = head.rstrip(" \t")
    if found["sign"] == "=" and (line.endswith("\n") or (not line and found.start() < 70)):
        return _search_end(_LINE_END, text, start)
    return _search_end(_PART_END, text, start)


def _is_option(text: str, place: int) -> bool:
    before = text[max(place - 70, 0) : place]
    return before[len(before.rstrip(_NAME_CHARACTERS)) :].startswith("--")


def _find_closing(text: str, quote: re.Match[str]) -> int:
    """Return the place of the closing quote, which is as often escaped as the opening one; else the end of the line."""
    mark, place = quote.group(), quote.end()
    while (place := text.find(mark, place)) >= 0:
        escapes = 0
        while text[place - 1 - escapes] == "\\":
            escapes += 1
        if escapes == 0 or (len(mark) == 1 and escapes % 2 == 0):
            return place
        place += 1
    return _search_end(_LINE_END, text, quote.end())


def _search_end(pattern: re.Pattern[str], text: str, start: int) -> int:
    found = pattern.search(text, start)
    return found.start() if found else len(text)


def _remove_values(text: str, values: set[str]) -> str:
    longest = sorted((value for value in values if len(value) >= _REPEATED_MINIMUM), key=len, reverse=True)
    for value in longest[:_REPEATED_MAXIMUM]:
        text = text.replace(value, REMOVED)
    return text
