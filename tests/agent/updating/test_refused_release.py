"""Releases that automatic updates leave out."""

import json
from pathlib import Path
from unittest import mock

from agent.delivery.spool import Spool
from agent.updating.refused_release import find_refusal, store_refusal

DAY_S = 86400
NOW = 1_795_000_000.0


def find_at(spool: Spool, sha256: str, now: float) -> str | None:
    with mock.patch("time.time", return_value=now):
        return find_refusal(spool, sha256)


def test_refused_release_is_tried_again_after_a_day_and_a_rolled_back_one_never(tmp_path: Path) -> None:
    spool = Spool(str(tmp_path), max_bytes=1, max_age_s=1)
    with mock.patch("time.time", return_value=NOW):
        store_refusal(spool, "a" * 64, "a check failed")
    found = [find_at(spool, "a" * 64, at) for at in (NOW + DAY_S - 1, NOW + DAY_S)]
    other = find_at(spool, "b" * 64, NOW)
    with mock.patch("time.time", return_value=NOW):
        store_refusal(spool, "a" * 64, "it was rolled back", is_final=True)

    assert (found, other) == (["a check failed", None], None)
    assert find_at(spool, "a" * 64, NOW + 400 * DAY_S) == "it was rolled back"


def test_rolled_back_releases_stay_refused_after_later_refusals(tmp_path: Path) -> None:
    spool = Spool(str(tmp_path), max_bytes=1, max_age_s=1)
    final, other = "a" * 64, "b" * 64
    old = {"sha256": final, "reason": "it was rolled back", "refused_at": NOW - 9 * DAY_S, "is_final": True}
    (tmp_path / "update.json").write_text(json.dumps(old))
    with mock.patch("time.time", return_value=NOW):
        store_refusal(spool, other, "it was rolled back", is_final=True)
        for number in range(60):
            store_refusal(spool, f"{number:064}", "a check failed")
        store_refusal(spool, final, "a check failed")

    assert [find_at(spool, each, NOW + 400 * DAY_S) for each in (final, other)] == ["it was rolled back"] * 2
    assert find_at(spool, f"{59:064}", NOW) == "a check failed"
    assert len(json.loads((tmp_path / "update.json").read_text())["refusals"]) == 50


def test_damaged_record_refuses_nothing(tmp_path: Path) -> None:
    spool = Spool(str(tmp_path), max_bytes=1, max_age_s=1)

    for text in (
        "",
        "[]",
        "{}",
        '{"sha256": "a", "refused_at": "x", "is_final": false}',
        '{"refusals": [5]}',
    ):
        (tmp_path / "update.json").write_text(text)
        assert find_at(spool, "a", NOW) is None
