"""Decode bytes to clean text: encodings, escape codes and characters that a database cannot store."""

import re
from typing import Final

from benchapp.fio.notes import Notes

_REPLACEMENT: Final = "\ufffd"
_BYTE_ORDER_MARKS: Final = (
    (b"\xef\xbb\xbf", "utf-8-sig"),
    (b"\xff\xfe", "utf-16"),  # PowerShell's `>` writes it
    (b"\xfe\xff", "utf-16"),
)
# Without a mark: two characters of ASCII.
_ASCII_IN_UTF16: Final = re.compile(rb"(?:[\x01-\x7f]\x00){2}|(?:\x00[\x01-\x7f]){2}")
# Codes of colors, of character sets, of window titles; and what a backspace takes back.
_TERMINAL_CODE: Final = re.compile(
    r"\x1b(?:\[[0-9;?]{0,32}[@-~]|\][^\x07\x1b\n]{0,256}(?:\x07|\x1b\\)|[()*+][0-9A-Za-z]|[=>78cDEHM])|.\x08"
)
# Zero-width characters, soft hyphens and other blanks, as chats, web pages and word processors insert them.
_INVISIBLE: Final[dict[int, str | None]] = {
    **dict.fromkeys((0xAD, *range(0x200B, 0x2010), 0x2060, 0xFEFF)),
    **dict.fromkeys((0xA0, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000), " "),
}
# Reads escapes one by one, so that the second half of `\\` begins none.
_UNSTORABLE_ESCAPE: Final = re.compile(
    r"(\\[^u]|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    r"|\\u0000|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
)


def decode_output(output: bytes, notes: Notes) -> str:
    """Return the text without NUL, lone surrogates and terminal escapes; a note lists what was replaced."""
    if output.isascii() and not (
        b"\x00" in output or b"\x1b" in output or b"\x08" in output or b"\\u" in output
    ):
        # It contains nothing that is replaced below.
        return output.decode()
    text = _decode(output, notes)
    if "\x00" in text:
        text = text.replace("\x00", _REPLACEMENT)
        notes.add("unstorable-characters", "", "NUL bytes were replaced: a database cannot store them")
    if not text.isascii():
        text = text.translate(_INVISIBLE)
    if "\x1b" in text or "\x08" in text:
        text = _TERMINAL_CODE.sub("", text)
    if "\\u0000" in text or "\\ud" in text or "\\uD" in text:
        text = _replace_escapes(text, notes)
    return text


def _decode(output: bytes, notes: Notes) -> str:
    encoding = next((name for mark, name in _BYTE_ORDER_MARKS if output.startswith(mark)), "utf-8")
    if encoding == "utf-8" and (wide := _ASCII_IN_UTF16.match(output)):
        encoding = "utf-16-be" if wide[0][0] == 0 else "utf-16-le"
    try:
        return output.decode(encoding)
    except UnicodeDecodeError as error:
        notes.add(
            "invalid-encoding",
            "",
            f"bytes that are not valid {encoding} were replaced, the first at offset {error.start}",
        )
        return output.decode(encoding, "replace")


def _replace_escapes(text: str, notes: Notes) -> str:
    cleaned = _UNSTORABLE_ESCAPE.sub(lambda match: match[1] or _REPLACEMENT, text)
    if cleaned != text:
        notes.add("unstorable-characters", "", "NUL or half a surrogate pair in a string was replaced")
    return cleaned
