"""A wheel of the agent, for pip (binary distribution format 1.0); needs no build backend."""

import base64
import hashlib
import io
import zipfile
from pathlib import Path
from typing import Final

# The earliest time in a zip: the same sources give the same bytes.
_MOMENT: Final = (1980, 1, 1, 0, 0, 0)


def build_wheel(folder: Path, *, version: str, summary: str, license_text: bytes) -> bytes:
    """Return the wheel. folder: the package `agent`, which the one-file agent contains, too."""
    about = f"bench_agent-{version}.dist-info"
    files = {
        f"agent/{path.relative_to(folder).as_posix()}": path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.suffix in (".py", ".fio")
    }
    metadata = (
        f"Metadata-Version: 2.1\nName: bench-agent\nVersion: {version}\nSummary: {summary}\nLicense: MIT\n"
        "Requires-Python: >=3.8\n"
    )
    files |= {
        f"{about}/METADATA": metadata.encode(),
        f"{about}/WHEEL": b"Wheel-Version: 1.0\nGenerator: benchapp\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{about}/entry_points.txt": b"[console_scripts]\nbench-agent = agent.commands.cli:main\n",
        f"{about}/LICENSE": license_text,
    }
    record = f"{about}/RECORD"
    lines = [f"{name},sha256={_encode_digest(content)},{len(content)}" for name, content in files.items()]
    files[record] = "\n".join([*lines, f"{record},,", ""]).encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as wheel:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, date_time=_MOMENT)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            entry.create_system = 3
            wheel.writestr(entry, content)
    return buffer.getvalue()


def _encode_digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
