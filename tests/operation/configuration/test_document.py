"""The YAML of a configuration file: types, lines of errors, and what is refused."""

from datetime import UTC, datetime

import pytest

from benchapp.operation.configuration.document import (
    BadConfiguration,
    read_document,
    read_moment,
    write_document,
)

MEMBERS = {"hosts": ("name", "pool"), "studies": ("title", "panels")}


def find_faults(text: str) -> list[tuple[int, str, str]]:
    with pytest.raises(BadConfiguration) as caught:
        read_document(text, MEMBERS)
    return [(fault.line, fault.path, fault.message) for fault in caught.value.faults]


def test_entries_have_plain_values_and_the_lines_of_their_values() -> None:
    text = """version: 1
studies:
  - title: Disks
    panels:
      - kind: scaling
        query: x=1
hosts: []
"""
    document = read_document(text, MEMBERS)

    assert document["hosts"] == []
    (entry,) = document["studies"]
    assert entry.values == {"title": "Disks", "panels": [{"kind": "scaling", "query": "x=1"}]}
    assert (entry.path, entry.line) == ("studies/0", 3)
    assert str(entry.make_fault("/panels/0/query", "bad")) == "line 6: studies/0/panels/0/query: bad"
    assert entry.make_fault("/panels/0/text", "bad").line == 5


@pytest.mark.parametrize(
    ("text", "line", "path", "part"),
    [
        ("", 0, "", "empty"),
        ("- 1", 1, "", "mapping"),
        ("hosts: []", 1, "version", "version: 1 is required"),
        ("version: true", 1, "version", "version: 1 is required"),
        ("version: 2", 1, "version", "version: 1 is required"),
        ("version: 1\nhost: []", 2, "host", "Valid names: version, hosts, studies"),
        ("version: 1\nhosts: db-1", 2, "hosts", "must be a list"),
        ("version: 1\nhosts:\n- db-1", 3, "hosts/0", "must have members: name, pool"),
        ("version: 1\nhosts:\n- name: a\n  rack: b", 4, "hosts/0/rack", "Valid members: name, pool"),
        ("version: 1\nhosts:\n- name: a\n  name: b", 4, "hosts/0/name", "given twice, first on line 3"),
        ("version: 1\nhosts:\n- no: a", 3, "hosts/0", "no is not a valid name: put it in quotes"),
        ("version: 1\nhosts:\n- name: 0755", 3, "hosts/0/name", "0755 is not a decimal number"),
        ("version: 1\nhosts:\n- name: 12:30", 3, "hosts/0/name", "12:30 is not a decimal number"),
        ("version: 1\nhosts:\n- name: .inf", 3, "hosts/0/name", "not a decimal number"),
        ("version: 1\nhosts:\n- name: !!binary aGk=", 3, "hosts/0/name", "is not accepted"),
        ("version: 1\nhosts:\n- &a {name: b}\n- *a", 4, "", "alias is not accepted"),
        ("version: 1\nhosts:\n- name: 'a", 3, "", "not valid YAML"),
        ("version: 1\n---\nversion: 1", 2, "", "not valid YAML"),
        ('version: 1\nhosts:\n- name: "a\\0b"', 3, "hosts/0/name", "NUL"),
        ("version: 1 # \x07", 0, "", "not valid YAML"),
        ("version: 1\nhosts: " + "[" * 12, 2, "", "nested too deeply"),
    ],
)
def test_fault_names_line_and_member(text: str, line: int, path: str, part: str) -> None:
    faults = find_faults(text)

    assert [fault[:2] for fault in faults] == [(line, path)]
    assert part in faults[0][2]


def test_all_faults_are_reported_in_the_order_of_lines() -> None:
    faults = find_faults("version: 1\nhosts:\n- rack: a\nother: 1\n")

    assert [fault[0] for fault in faults] == [3, 4]


def test_times_are_absolute() -> None:
    assert read_moment("2026-12-31T23:00:00+01:00") == datetime(2026, 12, 31, 22, tzinfo=UTC)
    for text in ("now", "-30d", "20261231", "soon"):
        with pytest.raises(ValueError, match="not a valid time"):
            read_moment(text)


def test_texts_of_several_lines_are_blocks_and_read_as_they_were() -> None:
    texts = ["one\ntwo\n", "no", "1", "2026-12-31", " x ", "a: b # c", "“ü”\n\n\n", "tail \nx", "", "null"]
    moment = datetime(2026, 12, 31, 22, 0, 0, 5, tzinfo=UTC)
    text = write_document({"hosts": [{"name": each, "pool": moment} for each in texts]})

    assert "name: |" in text
    found = read_document(text, MEMBERS)["hosts"]
    assert [entry.values["name"] for entry in found] == texts
    assert {read_moment(entry.values["pool"]) for entry in found} == {moment}
