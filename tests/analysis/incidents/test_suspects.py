"""What came with the changes, and hardly ever without."""

from benchapp.analysis.incidents.suspects import (
    Elsewhere,
    FactDifference,
    Suspect,
    rank_suspects,
    weigh_elsewhere,
)

KERNEL = FactDifference("kernel", "6.1", "6.12")
FIRMWARE = FactDifference("device_firmware", "A", "B")
LOAD = FactDifference("load", "0.1", "3.0")


def test_what_came_with_all_changes_and_never_before_is_first() -> None:
    suspects = rank_suspects(
        [[KERNEL, FIRMWARE], [KERNEL], [KERNEL]], steps=99, moved={"kernel": 1, "device_firmware": 1}
    )

    assert [(each.difference, round(each.share, 2)) for each in suspects] == [(KERNEL, 1.0), (FIRMWARE, 0.33)]
    assert suspects[0].usual == 0.015


def test_what_changes_at_every_run_anyway_is_no_suspect() -> None:
    assert rank_suspects([[LOAD], [LOAD]], steps=99, moved={"load": 60}) == ()


def test_what_came_with_few_of_the_changes_is_no_suspect() -> None:
    assert rank_suspects([[FIRMWARE], *[[]] * 9], steps=99, moved={"device_firmware": 1}) == ()


def test_few_runs_prove_little() -> None:
    assert rank_suspects([[KERNEL]], steps=1, moved={"kernel": 1}) == ()
    assert len(rank_suspects([[KERNEL]], steps=9, moved={"kernel": 1})) == 1


def test_same_difference_twice_around_one_change_counts_once() -> None:
    (suspect,) = rank_suspects([[KERNEL, KERNEL], []], steps=99, moved={"kernel": 1})

    assert suspect.share == 0.5


def test_nothing_that_is_recorded_changed() -> None:
    assert rank_suspects([[], []], steps=99, moved={}) == ()
    assert rank_suspects([], steps=0, moved={}) == ()


def test_host_that_stayed_fine_speaks_against_what_came_to_it() -> None:
    suspects = rank_suspects([[KERNEL, FIRMWARE]] * 2, steps=99, moved={"kernel": 1, "device_firmware": 1})
    assert [each.difference for each in suspects] == [FIRMWARE, KERNEL]

    weighed = weigh_elsewhere(suspects, {FIRMWARE: Elsewhere(fine=("db-2",))})

    assert [(each.difference, round(each.weight, 3)) for each in weighed] == [
        (KERNEL, 0.985),
        (FIRMWARE, 0.591),
    ]


def test_hosts_that_moved_too_outweigh_few_that_stayed_fine() -> None:
    def weigh(**hosts: tuple[str, ...]) -> float:
        return round(Suspect(KERNEL, 1, 1.0, 0.0, Elsewhere(**hosts)).weight, 2)

    moved = ("a", "b", "c", "d", "e")

    assert (weigh(), weigh(moved=moved)) == (1.0, 1.0)
    assert (weigh(fine=("x",)), weigh(fine=("x",), moved=moved)) == (0.6, 0.87)
    assert weigh(fine=("x", "y", "z")) == 0.33
