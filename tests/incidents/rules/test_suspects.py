"""Ranking of suspects."""

from benchapp.incidents.rules.incidents import (
    Elsewhere,
    FactDifference,
    Suspect,
    rank_suspects,
    weigh_elsewhere,
)

KERNEL = FactDifference("kernel", "6.1", "6.12")
FIRMWARE = FactDifference("device_firmware", "A", "B")
LOAD = FactDifference("load", "0.1", "3.0")


def test_difference_of_all_changes_that_never_occurred_before_is_first() -> None:
    suspects = rank_suspects(
        [[KERNEL, FIRMWARE], [KERNEL], [KERNEL]], steps=99, step_counts={"kernel": 1, "device_firmware": 1}
    )

    assert [(each.difference, round(each.share, 2)) for each in suspects] == [(KERNEL, 1.0), (FIRMWARE, 0.33)]
    assert suspects[0].usual == 0.015


def test_fact_that_changes_at_every_run_is_not_a_suspect() -> None:
    assert rank_suspects([[LOAD], [LOAD]], steps=99, step_counts={"load": 60}) == ()


def test_difference_of_few_changes_is_not_a_suspect() -> None:
    assert rank_suspects([[FIRMWARE], *[[]] * 9], steps=99, step_counts={"device_firmware": 1}) == ()


def test_few_runs_prove_little() -> None:
    assert rank_suspects([[KERNEL]], steps=1, step_counts={"kernel": 1}) == ()
    assert len(rank_suspects([[KERNEL]], steps=9, step_counts={"kernel": 1})) == 1


def test_duplicate_difference_of_one_change_counts_once() -> None:
    (suspect,) = rank_suspects([[KERNEL, KERNEL], []], steps=99, step_counts={"kernel": 1})

    assert suspect.share == 0.5


def test_no_difference_gives_no_suspects() -> None:
    assert rank_suspects([[], []], steps=99, step_counts={}) == ()
    assert rank_suspects([], steps=0, step_counts={}) == ()


def test_unaffected_host_lowers_the_weight_of_a_suspect() -> None:
    suspects = rank_suspects(
        [[KERNEL, FIRMWARE]] * 2, steps=99, step_counts={"kernel": 1, "device_firmware": 1}
    )
    assert [each.difference for each in suspects] == [FIRMWARE, KERNEL]

    weighed = weigh_elsewhere(suspects, {FIRMWARE: Elsewhere(unaffected=("db-2",))})

    assert [(each.difference, round(each.weight, 3)) for each in weighed] == [
        (KERNEL, 0.739),
        (FIRMWARE, 0.492),
    ]


def test_second_regressed_host_raises_the_weight_of_a_suspect() -> None:
    suspects = rank_suspects(
        [[KERNEL, FIRMWARE]] * 2, steps=99, step_counts={"kernel": 1, "device_firmware": 1}
    )
    assert [each.difference for each in suspects] == [FIRMWARE, KERNEL]

    weighed = weigh_elsewhere(suspects, {KERNEL: Elsewhere(regressed=("db-2",))})

    assert [each.difference for each in weighed] == [KERNEL, FIRMWARE]


def test_regressed_hosts_outweigh_few_unaffected_ones() -> None:
    def weigh(**hosts: tuple[str, ...]) -> float:
        return round(Suspect(KERNEL, 1, 1.0, 0.0, Elsewhere(**hosts)).weight, 2)

    regressed = ("a", "b", "c", "d", "e")

    assert (weigh(), weigh(regressed=regressed)) == (0.75, 0.93)
    assert (weigh(unaffected=("x",)), weigh(unaffected=("x",), regressed=regressed)) == (0.5, 0.81)
    assert weigh(unaffected=("x", "y", "z")) == 0.3
