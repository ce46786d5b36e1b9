"""Parameters of each file by its name and by a table."""

import pytest

from benchapp.intake.importing.checking import (
    BadFileParameters,
    FileParameters,
    UnknownFile,
    read_name_pattern,
    read_parameter_table,
)


@pytest.mark.parametrize(
    ("pattern", "name", "values"),
    [
        ("{volume_type}", "gp3.json", {"volume_type": "gp3"}),
        (
            "{volume_type}-{volume_count}x-*",
            "gp3-4x-run7.json.gz",
            {"volume_type": "gp3", "volume_count": "4"},
        ),
        ("*_{label.run}", "fio_a.b", {"label.run": "a.b"}),
        ("*_{label.run}", "fio_a.terse", {"label.run": "a"}),
        ("fio({profile})", "fio(nightly).txt", {"profile": "nightly"}),
    ],
)
def test_values_of_a_name(pattern: str, name: str, values: dict[str, str]) -> None:
    assert FileParameters(pattern=read_name_pattern(pattern)).read(name) == values


@pytest.mark.parametrize("folder", ["gp3/4x", "may/gp3/4x", "/gp3/4x/"])
def test_pattern_with_a_slash_matches_the_folders(folder: str) -> None:
    files = FileParameters(pattern=read_name_pattern("{volume_type}/{volume_count}x/{rw}-*"), folder=folder)

    assert files.read("randread-1-1.json") == {"volume_type": "gp3", "volume_count": "4"}


def test_pattern_without_a_slash_ignores_folders() -> None:
    files = FileParameters(pattern=read_name_pattern("{volume_type}-*"), folder="io2-old/4x")

    assert files.read("gp3-1.json") == {"volume_type": "gp3"}


@pytest.mark.parametrize(
    ("pattern", "part"),
    [
        ("{volume_type", "not closed"),
        ("a}", "not closed"),
        ("{volume_type}{volume_count}", "a text between"),
        ("{volume_type}*", "a text between"),
        ("{volume_type}-{volume_type}", "twice"),
        ("{disk}", "'disk' is unknown"),
        ("{}", "'' is unknown"),
        ("x" * 201, "at most 200"),
    ],
)
def test_pattern_that_cannot_be_used_is_refused(pattern: str, part: str) -> None:
    with pytest.raises(BadFileParameters, match=part):
        read_name_pattern(pattern)


def test_rows_precede_names_that_precede_the_form() -> None:
    files = FileParameters(
        common={"volume_type": "gp2", "filesystem": "xfs", "volume_count": "1"},
        pattern=read_name_pattern("{volume_type}-*"),
        rows=read_parameter_table(
            "# of May\nfile,volume_type,volume_count\nruns/io2-a.json,,8\nio2-b.json.gz,gp3,2\n"
        ),
    )

    assert files.read("io2-a.json.gz") == {"volume_type": "io2", "filesystem": "xfs", "volume_count": "8"}
    assert files.read("io2-b.json")["volume_type"] == "gp3"
    with pytest.raises(UnknownFile, match="does not list"):
        files.read("io2-c.json")
    with pytest.raises(UnknownFile, match="does not match"):
        files.read("io2.json")
    assert read_name_pattern(" ") is None


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "is empty"),
        ("volume_type\ngp3", "line 1: one column must be file"),
        ("file,profile,profile\n", "twice"),
        ("file,disk\na,b", "'disk' is unknown"),
        (
            "# x\nfile,profile\na.json,b,c\n,d\nb.json,e\nb.json.gz,f",
            "line 3: 3 cells.*line 4: the name.*line 6: b.json",
        ),
        ('file\n"a', "line 2: not a valid CSV"),
    ],
)
def test_table_that_cannot_be_read_names_its_lines(text: str, part: str) -> None:
    with pytest.raises(BadFileParameters, match=part):
        read_parameter_table(text)


def test_unknown_name_lists_what_the_output_states_too() -> None:
    with pytest.raises(
        BadFileParameters, match=r"'qd' is unknown. Available: .*\bbs, .*iodepth, .*numjobs, .*rw, "
    ):
        read_name_pattern("{bs}-{qd}")


def test_columns_that_the_output_states_are_skipped() -> None:
    assert read_parameter_table("file,bs,volume_type\na.json,4k,gp3\n") == {"a.json": {"volume_type": "gp3"}}
