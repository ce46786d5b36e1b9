import base64
import hashlib
import io
import json
import os
import platform
import sys
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from benchapp.operation.embedded.javascript import FetchFailed, fetch_all, find_registry


def make_tarball(files, folder="package"):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    return buffer.getvalue()


TARBALL = make_tarball({"dist/lib.min.js": "lib()", "dist/evil.js": "evil()", "package.json": "{}"})


@pytest.fixture
def registry():
    """Serve tarballs by path on loopback; `registry.files` maps a path to bytes, `registry.asked` lists requests."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.server.asked.append(self.path)
            body = self.server.files.get(self.path)
            self.send_response(200 if body is not None else 404)
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, *arguments):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.files, server.asked = {}, []
    server.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def project(tmp_path, registry):
    registry.files["/lib/-/lib-1.2.3.tgz"] = TARBALL
    (tmp_path / "package.json").write_text(
        json.dumps({"vendor": {"lib": {"dist/lib.min.js": "static/vendor/lib.min.js"}}})
    )
    write_lock(tmp_path, registry.url)
    return tmp_path


def write_lock(project, url, **fields):
    integrity = "sha512-" + base64.b64encode(hashlib.sha512(TARBALL).digest()).decode()
    entry = {"version": "1.2.3", "resolved": f"{url}/lib/-/lib-1.2.3.tgz", "integrity": integrity, **fields}
    (project / "package-lock.json").write_text(json.dumps({"packages": {"": {}, "node_modules/lib": entry}}))


def fetch(project, **environ):
    return fetch_all(project, with_dev=False, environ={"HOME": str(project / "home"), **environ})


def test_only_the_allowed_file_is_unpacked(project):
    fetched = fetch(project)

    assert fetched == ["lib 1.2.3"]
    assert (project / "static/vendor/lib.min.js").read_text() == "lib()"
    assert {path.name for path in (project / "static/vendor").iterdir()} == {
        "lib.min.js",
        ".lib.integrity",
        ".gitignore",
    }


def test_second_fetch_asks_nobody(project, registry):
    fetch(project)

    assert fetch(project) == []
    assert len(registry.asked) == 1


def test_file_that_was_removed_is_fetched_again(project):
    fetch(project)
    (project / "static/vendor/lib.min.js").unlink()

    assert fetch(project) == ["lib 1.2.3"]


def test_tarball_with_another_digest_is_refused_and_not_unpacked(project, registry):
    registry.files["/lib/-/lib-1.2.3.tgz"] = make_tarball({"dist/lib.min.js": "evil()"})

    with pytest.raises(FetchFailed, match=r"lib 1\.2\.3 does not match package-lock\.json: sha512"):
        fetch(project)
    assert not (project / "static").exists()


@pytest.mark.parametrize("integrity", ["sha1-2jmj7l5rSw0yVb/vlWAYkK/YBwk=", "sha512-", ""])
def test_lock_without_a_sha512_is_refused(project, registry, integrity):
    write_lock(project, registry.url, integrity=integrity)

    with pytest.raises(FetchFailed):
        fetch(project)


def test_package_that_is_not_locked_is_refused(project):
    (project / "package-lock.json").write_text('{"packages": {}}')

    with pytest.raises(FetchFailed, match="does not lock lib"):
        fetch(project)


def test_missing_tarball_is_said_with_the_way_round(project, registry):
    registry.files.clear()

    with pytest.raises(FetchFailed, match=r"cannot download lib 1\.2\.3 .*404.*NPM_CONFIG_REGISTRY"):
        fetch(project)


def test_file_that_the_package_does_not_have_is_refused(project):
    (project / "package.json").write_text(
        json.dumps({"vendor": {"lib": {"dist/gone.js": "static/vendor/gone.js"}}})
    )

    with pytest.raises(FetchFailed, match=r"has no file dist/gone\.js"):
        fetch(project)


def test_other_scheme_than_http_is_refused(project):
    write_lock(project, "file:///etc")

    with pytest.raises(FetchFailed, match="not a valid HTTP URL"):
        fetch(project)


def test_development_package_is_fetched_only_when_asked(project, registry):
    write_lock(project, registry.url, dev=True)

    assert fetch(project) == []
    assert fetch_all(project, with_dev=True, environ={"HOME": "/nowhere"}) == ["lib 1.2.3"]


def test_mirror_replaces_the_address_of_the_lock(project, registry):
    write_lock(project, "http://127.0.0.1:9")
    registry.files["/mirror/npm/lib/-/lib-1.2.3.tgz"] = TARBALL

    assert fetch(project, NPM_CONFIG_REGISTRY=f"{registry.url}/mirror/npm/") == ["lib 1.2.3"]


def test_mirror_is_read_from_npmrc(project):
    (project / "home").mkdir()
    (project / "home" / ".npmrc").write_text("fund=false\nregistry = http://mirror.test/npm\n")

    assert find_registry({"HOME": str(project / "home")}, project) == "http://mirror.test/npm"


def test_environment_outranks_npmrc(project):
    (project / ".npmrc").write_text("registry=http://mirror.test/npm\n")

    assert find_registry({"npm_config_registry": "http://other.test"}, project) == "http://other.test"
    assert find_registry({}, project) == "http://mirror.test/npm"


def test_package_for_another_machine_is_skipped(project, registry):
    write_lock(project, registry.url, os=["aix"], cpu=["ppc64"])

    assert fetch(project) == []
    assert registry.asked == []


def test_package_for_this_machine_is_fetched(project, registry, monkeypatch):
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    write_lock(project, registry.url, os=["linux"], cpu=["arm64"])

    assert fetch(project) == ["lib 1.2.3"]


def test_program_stays_executable(tmp_path, registry):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        member = tarfile.TarInfo("package/bin/tool")
        member.size, member.mode = 4, 0o755
        archive.addfile(member, io.BytesIO(b"tool"))
    integrity = "sha512-" + base64.b64encode(hashlib.sha512(buffer.getvalue()).digest()).decode()
    entry = {"version": "1.0.0", "resolved": f"{registry.url}/tool/-/tool-1.0.0.tgz", "integrity": integrity}
    registry.files["/tool/-/tool-1.0.0.tgz"] = buffer.getvalue()
    (tmp_path / "package.json").write_text(json.dumps({"vendor": {"tool": {"bin/tool": ".tool/tool"}}}))
    (tmp_path / "package-lock.json").write_text(json.dumps({"packages": {"node_modules/tool": entry}}))

    fetch(tmp_path)

    assert os.access(tmp_path / ".tool" / "tool", os.X_OK)
