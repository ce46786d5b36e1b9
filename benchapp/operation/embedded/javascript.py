"""Download third-party JavaScript as locked by package-lock.json, with sha512 checks, without node.

    python -m benchapp.operation.embedded.javascript [--dev]

`vendor` in package.json lists the files to unpack from each package and their targets. Packages for another operating
system or processor are skipped, and no install script is run. The registry is that of the lock file, unless
NPM_CONFIG_REGISTRY or `registry=` in .npmrc is set.
"""

import argparse
import base64
import hashlib
import hmac
import io
import json
import os
import platform
import sys
import tarfile
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

PROJECT: Final = Path(__file__).resolve().parents[3]
_TARBALL_LIMIT_BYTES: Final = 32 * 2**20
_TIMEOUT_S: Final = 30
_ATTEMPTS: Final = 3
# npm's names of processors.
_CPUS: Final = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}


class FetchFailed(Exception):
    """A locked package could not be downloaded."""


@dataclass(frozen=True)
class Package:
    """A locked package and its files to unpack: path in the package → path in the checkout."""

    name: str
    version: str
    url: str
    integrity: str
    files: Mapping[str, str]


def read_packages(project: Path, *, with_dev: bool) -> list[Package]:
    """Return the locked packages of the allow-list."""
    lock = json.loads((project / "package-lock.json").read_text())["packages"]
    allowed: dict[str, dict[str, str]] = json.loads((project / "package.json").read_text())["vendor"]
    packages = []
    for name, files in allowed.items():
        entry: dict[str, Any] | None = lock.get(f"node_modules/{name}")
        if entry is None or not {"version", "resolved", "integrity"} <= entry.keys():
            raise FetchFailed(
                f"package-lock.json does not lock {name}: run `npm install --package-lock-only`"
            )
        if (entry.get("dev", False) and not with_dev) or not _fits_machine(entry):
            continue
        packages.append(Package(name, entry["version"], entry["resolved"], entry["integrity"], files))
    return packages


def _fits_machine(entry: Mapping[str, Any]) -> bool:
    cpu = _CPUS.get(platform.machine().lower(), platform.machine())
    return sys.platform in entry.get("os", [sys.platform]) and cpu in entry.get("cpu", [cpu])


def find_registry(environ: Mapping[str, str], project: Path) -> str | None:
    """Return the registry of npm's settings, or None to use the URLs of the lock file."""
    for variable in ("NPM_CONFIG_REGISTRY", "npm_config_registry"):
        if environ.get(variable):
            return environ[variable]
    for folder in (project, Path(environ.get("HOME", "/nonexistent"))):
        try:
            lines = (folder / ".npmrc").read_text().splitlines()
        except OSError:
            continue
        for line in lines:
            key, _, value = line.partition("=")
            if key.strip() == "registry" and value.strip():
                return value.strip()
    return None


def fetch_all(
    project: Path = PROJECT, *, with_dev: bool, environ: Mapping[str, str] = os.environ
) -> list[str]:
    """Download packages that are missing or differ from the lock; return their names."""
    registry = find_registry(environ, project)
    fetched = []
    for package in read_packages(project, with_dev=with_dev):
        if _is_installed(project, package):
            continue
        tarball = _download(_locate(package, registry), package)
        _unpack(tarball, package, project)
        _stamp(project, package).write_text(package.integrity + "\n")
        fetched.append(f"{package.name} {package.version}")
    return fetched


def check_integrity(tarball: bytes, package: Package) -> None:
    """Raise FetchFailed for a tarball that differs from the lock."""
    wanted = {text.partition("-")[2] for text in package.integrity.split() if text.startswith("sha512-")}
    found = base64.b64encode(hashlib.sha512(tarball).digest()).decode()
    if not any(hmac.compare_digest(found, digest) for digest in wanted):
        raise FetchFailed(
            f"{package.name} {package.version} does not match package-lock.json: sha512 {found[:16]}…, "
            f"expected {package.integrity[:23]}…; nothing was unpacked"
        )


def _locate(package: Package, registry: str | None) -> str:
    if registry is None:
        return package.url
    file_name = urlsplit(package.url).path.rpartition("/")[2]
    return f"{registry.rstrip('/')}/{package.name}/-/{file_name}"


def _download(url: str, package: Package) -> bytes:
    if urlsplit(url).scheme not in ("https", "http"):
        raise FetchFailed(f"{package.name}: {url[:80]!r} is not a valid HTTP URL")
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as response:  # noqa: S310
                tarball: bytes = response.read(_TARBALL_LIMIT_BYTES + 1)
            break
        except (OSError, urllib.error.URLError) as error:
            is_final = isinstance(error, urllib.error.HTTPError) and error.code < 500
            if is_final or attempt == _ATTEMPTS:
                raise FetchFailed(
                    f"cannot download {package.name} {package.version} from {urlsplit(url).netloc}: {error}. "
                    f"To use a mirror, set NPM_CONFIG_REGISTRY to its URL."
                ) from error
            time.sleep(attempt)
    if len(tarball) > _TARBALL_LIMIT_BYTES:
        raise FetchFailed(f"{package.name} is larger than {_TARBALL_LIMIT_BYTES} bytes")
    check_integrity(tarball, package)
    return tarball


def _unpack(tarball: bytes, package: Package, project: Path) -> None:
    missing = dict(package.files)
    with tarfile.open(fileobj=io.BytesIO(tarball), mode="r:gz") as archive:
        for member in archive:
            target = missing.pop(
                member.name.partition("/")[2], None
            )  # npm strips the first folder of any name
            content = archive.extractfile(member) if target and member.isfile() else None
            if target is None or content is None:
                continue
            path = project / target
            _make_ignored_folder(path.parent)
            partial = path.with_name(f".{path.name}.{os.getpid()}")
            partial.write_bytes(content.read())
            partial.chmod(0o755 if member.mode & 0o100 else 0o644)
            partial.replace(path)
    if missing:
        raise FetchFailed(f"{package.name} {package.version} has no file {', '.join(missing)}")


def _is_installed(project: Path, package: Package) -> bool:
    try:
        stamp = _stamp(project, package).read_text().strip()
    except OSError:
        return False
    return stamp == package.integrity and all(
        (project / target).exists() for target in package.files.values()
    )


def _make_ignored_folder(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ".gitignore").write_text("*\n")  # third-party files are not committed


def _stamp(project: Path, package: Package) -> Path:
    folder = (project / next(iter(package.files.values()))).parent
    return folder / f".{package.name.replace('/', '+')}.integrity"


def main() -> int:
    """Download packages and print their names."""
    parser = argparse.ArgumentParser(
        description="Download the third-party JavaScript locked by package-lock.json."
    )
    parser.add_argument("--dev", action="store_true", help="include packages for tests")
    arguments = parser.parse_args()
    try:
        fetched = fetch_all(with_dev=arguments.dev)
    except FetchFailed as error:
        print(f"JavaScript: {error}", file=sys.stderr)
        return 1
    if fetched:
        print(f"JavaScript: {', '.join(fetched)} (sha512 verified)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
