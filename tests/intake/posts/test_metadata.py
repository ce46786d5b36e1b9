"""The metadata of senders is typed, bounded and never guessed."""

import pytest

from benchapp.intake.posts.metadata import (
    BadLayout,
    read_count,
    read_environment,
    read_labels,
    read_size,
    read_target,
)


@pytest.mark.parametrize(
    ("given", "size_bytes"),
    [
        (4096, 4096),
        ("4096", 4096),
        ("4k", 4096),
        ("4K", 4096),
        ("4KiB", 4096),
        ("4Ki", 4096),
        ("4kB", 4000),
        ("4 KB", 4000),
        ("500GiB", 536_870_912_000),
        ("500G", 536_870_912_000),
        ("500GB", 500_000_000_000),
        ("1.5T", 1_649_267_441_664),
        ("0", 0),
        (None, None),
        ("", None),
    ],
)
def test_size_is_read_as_written(given: object, size_bytes: int | None) -> None:
    assert read_size(given, "/x") == size_bytes


@pytest.mark.parametrize("given", ["4q", "-4k", "4k4", "many", True, 4.5, [], "9" * 20, "9999999P", "٤k"])
def test_what_is_no_size_is_refused(given: object) -> None:
    with pytest.raises(BadLayout) as caught:
        read_size(given, "/target/volume_size_bytes")

    assert caught.value.pointer == "/target/volume_size_bytes"


@pytest.mark.parametrize(
    ("given", "count"), [(8, 8), ("8", 8), (" 8 ", 8), ("3k", 3000), ("2M", 2_000_000), (None, None)]
)
def test_count_is_read_as_written(given: object, count: int | None) -> None:
    assert read_count(given, "/x") == count


@pytest.mark.parametrize("given", [True, 1.0, -1, "-1", "eight", "", 2**31, "²", [], {}, "k"])
def test_what_is_no_count_is_refused_or_nothing(given: object) -> None:
    if given == "":
        assert read_count(given, "/x") is None
        return
    with pytest.raises(BadLayout):
        read_count(given, "/x")


def test_target_reads_every_spelling_alike() -> None:
    typed = read_target({"volume_type": "gp3", "volume_count": 8, "chunk_size_bytes": 4096})
    spelled = read_target({"volume_type": " GP3 ", "volume_count": "8", "chunk_size_bytes": "4k"})

    assert typed == spelled


def test_target_names_every_field_and_unknown_is_none() -> None:
    target = read_target({"name": "/mnt/Data", "raid_level": "RAID0"})

    assert target == {
        "target_name": "/mnt/Data",
        "volume_type": None,
        "volume_size_bytes": None,
        "volume_count": None,
        "provisioned_iops": None,
        "raid_level": "raid0",
        "stripe_count": None,
        "chunk_size_bytes": None,
        "filesystem": None,
        "mount_options": None,
        "instance_type": None,
    }


def test_mistyped_target_field_is_refused_with_the_valid_ones() -> None:
    with pytest.raises(BadLayout, match="volume_count") as caught:
        read_target({"volume_cuont": 4})

    assert caught.value.pointer == "/target/volume_cuont"


def test_nul_in_text_is_refused_where_it_is() -> None:
    with pytest.raises(BadLayout, match="NUL") as caught:
        read_target({"filesystem": "ext4\x00"})

    assert caught.value.pointer == "/target/filesystem"


def test_labels_become_text() -> None:
    assert read_labels({"rack": "r1", "slot": 4, "hot": True, "none": None}) == {
        "rack": "r1",
        "slot": "4",
        "hot": "1",
        "none": "",
    }


def test_too_many_labels_are_refused() -> None:
    with pytest.raises(BadLayout, match="51 labels"):
        read_labels({f"l{number}": "x" for number in range(51)})


def test_environment_keeps_what_it_has_no_field_for_as_facts() -> None:
    environment = read_environment(
        {"kernel": "6.1.0", "memory_bytes": 1024, "queue": {"nr_requests": 64}, "facts": {"numa": ["0", "1"]}}
    )

    assert environment["kernel"] == "6.1.0"
    assert environment["memory_bytes"] == 1024
    assert environment["governor"] is None
    assert environment["facts"] == {"queue": {"nr_requests": "64"}, "numa": ["0", "1"]}


def test_bottomless_facts_are_refused() -> None:
    facts: dict[str, object] = {}
    for _ in range(10):
        facts = {"deeper": facts}

    with pytest.raises(BadLayout, match="5 levels"):
        read_environment({"facts": facts})
