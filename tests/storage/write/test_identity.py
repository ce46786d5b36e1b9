"""Typed identity: what is the same gives one key, what differs gives another."""

from benchapp.storage.write.hosts import canonical_json, environment_key, key_of, series_key


def test_order_of_names_does_not_matter() -> None:
    assert key_of({"iodepth": 8, "numjobs": 1}) == key_of({"numjobs": 1, "iodepth": 8})


def test_values_stay_with_their_names() -> None:
    assert key_of({"iodepth": 8, "numjobs": 1}) != key_of({"iodepth": 1, "numjobs": 8})


def test_whole_fraction_is_the_integer() -> None:
    assert key_of({"runtime_s": 60.0}) == key_of({"runtime_s": 60})
    assert key_of({"runtime_s": 0.5}) != key_of({"runtime_s": 0})


def test_text_is_not_a_number_and_unknown_is_neither() -> None:
    keys = {key_of({"volume_count": value}) for value in (8, "8", None, "")}

    assert len(keys) == 4


def test_canonical_json_is_sorted_and_without_space() -> None:
    assert (
        canonical_json({"b": 1.0, "a": {"d": None, "c": [2.0, "é"]}})
        == '{"a":{"c":[2,"é"],"d":null},"b":1}'.encode()
    )


def test_series_differ_by_scope_target_workload_and_direction() -> None:
    base = {"scope": "host:a", "target_key": b"t" * 32, "workload_key": b"w" * 32, "direction": "read"}
    others = [
        base | {"scope": "pool:a"},
        base | {"target_key": b"u" * 32},
        base | {"workload_key": b"x" * 32},
        base | {"direction": "write"},
    ]

    keys = {series_key(**fields) for fields in [base, *others]}  # type: ignore[arg-type]

    assert len(keys) == 5


def test_series_key_does_not_drift_between_releases() -> None:
    """A changed key would end every history: raise SERIES_KEY_VERSION and migrate instead."""
    key = series_key(scope="host:a", target_key=b"\x00" * 32, workload_key=b"\x01" * 32, direction="read")

    assert key.hex() == "3741e6312c8b9235162d1733be4d1b54e587b48a6c4bca13ff4e192758e5e785"


def test_unknown_facts_of_later_versions_leave_the_key_of_an_environment() -> None:
    stored = {"kernel": "6.1.0", "governor": None, "facts": {}}

    assert environment_key({**stored, "agent_version": None, "device_driver": None}) == key_of(stored)
    assert environment_key({**stored, "agent_version": "0.2.0", "device_driver": None}) != key_of(stored)
