"""Decode bytes to clean text, and name what a text without a report of fio is."""

import re
from typing import Final

from benchapp.fio.report import Notes

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


_JSON_HINT: Final = "benchapp reads fio's own output: run fio with --output-format=json"
_JOB_FILE: Final = (
    r"(?s)\A(?:\s*+[;#][^\n]*+\n)*+\s*+\[[^\]\n]{1,100}\][ \t\r]*+\n.{0,4000}?"
    r"^[ \t]*+(?:rw|readwrite|bs|size|ioengine|filename|stonewall|runtime|direct|numjobs)\b"
)
# Name, what to do, and the text that only this has. Of the first match; searched in the beginning of the text.
_FORMS: Final = tuple(
    (name, hint, re.compile(pattern, re.MULTILINE))
    for name, hint, pattern in (
        (
            "data compressed with gzip",
            "unpack it (gzip -dc FILE), or send it with Content-Encoding: gzip",
            r"\A\x1f",
        ),
        ("data compressed with bzip2", "unpack it: bzip2 -dc FILE", r"\ABZh\d"),
        (
            "a zip archive",
            "unpack it (unzip -p FILE), or upload it on the page Uploads",
            r"\APK(?:\x03\x04|[\ufffd\x03])",
        ),
        ("data compressed with xz", "unpack it: xz -dc FILE", r"\A\ufffd7zXZ"),
        ("data compressed with zstd", "unpack it: zstd -dc FILE", r"\A\(\ufffd/\ufffd"),
        (
            "a fio log (of write_bw_log and others)",
            "send it beside the report, as a file with its own name (_bw.1.log)",
            r"\A\s*+\d++, ?(?:\d++, ?)?[0-3], ?\d++(?:, ?\d++)*+[ \t]*$",
        ),
        (
            "a fio job file",
            "a job file says what to run: run fio with it, and send fio's output",
            _JOB_FILE,
        ),
        ("YAML", f"convert it back to JSON, or {_JSON_HINT}", r"^fio version: |^[ -]*+jobname: "),
        ("quoted-printable text", "decode it: python3 -m quopri -d FILE", r"\(g=3D\d|\(groupid=3D"),
        (
            "kbench's summary",
            "send the outputs of fio that it keeps beside it (*.json)",
            r"^FIO Benchmark Summary|^[ \t]*Benchmark Result$",
        ),
        (
            "dbench's summary (Dbench Summary)",
            "dbench shows a part of fio's output only: run its fio commands with --output-format=json",
            r"Dbench Summary",
        ),
        (
            "yabs' summary",
            "yabs shows a part of fio's output only: run fio with --output-format=json",
            r"^fio Disk Speed Tests|yabs\.sh",
        ),
        (
            "kubestr's summary",
            "run kubestr with -o json -e FILE, and send the fio report in it",
            r"^FIO test results:|kubestr",
        ),
        (
            "a part of fio's report without the line of its job",
            "send all of it, from the line with (groupid=…): err=… on",
            r"^[ \t]*(?:read|write|trim) {0,2}: {0,2}(?:IOPS|io)=|^Run status group \d",
        ),
        ("the output of dd", _JSON_HINT, r"^\d++\+\d++ [^\W\d]++ \w|bytes? .{0,60}copied, "),
        ("the output of iozone", _JSON_HINT, r"Iozone: Performance Test"),
        ("the output of ioping", _JSON_HINT, r"ioping statistics ---|<<< .{1,200}: request=\d"),
        ("the output of bonnie++", _JSON_HINT, r"-Sequential Output-|Bonnie"),
        ("the output of sysbench", _JSON_HINT, r"^sysbench \d"),
        ("the output of vdbench", _JSON_HINT, r"^Vdbench|\bvdbench\d{5}"),
        ("the output of diskspd", _JSON_HINT, r"diskspd(?:\.exe)?\b"),
        ("the output of elbencho", _JSON_HINT, r"^OPERATION +RESULT TYPE +FIRST DONE"),
        ("the output of hdparm", _JSON_HINT, r"^ ?Timing (?:cached|buffered disk|O_DIRECT)"),
        ("the output of iostat", _JSON_HINT, r"^Device:? .{0,80}(?:r/s|tps)\b"),
        ("the output of CrystalDiskMark", _JSON_HINT, r"^CrystalDiskMark \d"),
        ("the output of IOR", _JSON_HINT, r"^IOR-\d|^Max Write: "),
        ("the output of mdtest", _JSON_HINT, r"^mdtest-\d"),
        ("the output of pgbench", _JSON_HINT, r"^pgbench \(|^transaction type: "),
        (
            "the output of rados bench",
            _JSON_HINT,
            r"^Total time run: .{0,200}\n(?:.{0,200}\n){0,3}?Total (?:writes|reads) made",
        ),
        ("an HTML page", "send fio's output as plain text", r"(?i)\A\s*+<(?:!doctype html|html)\b"),
    )
)
_SEARCHED: Final = 64 * 1024


def name_foreign(text: str) -> str | None:
    """Return a sentence about what a text is, and what to do; None where it is nothing known."""
    beginning = text[:_SEARCHED]
    for name, hint, pattern in _FORMS:
        if pattern.search(beginning):
            return f"this is {name}: {hint}"
    return None
