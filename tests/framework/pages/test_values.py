"""How values are shown in templates."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from django.template import engines
from django.urls import NoReverseMatch

from benchapp.framework.times import describe_remaining
from benchapp.templatetags import values

NOON = datetime(2026, 5, 12, 12, 0, 3, tzinfo=UTC)


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (None, "–"),
        (0, "0 B"),
        (39, "39 B"),
        (4096, "4 KiB"),
        (64 * 2**20, "64 MiB"),
        (500 * 2**30, "500 GiB"),
        (1536 * 2**30, "1.50 TiB"),
        (8149237760, "7.59 GiB"),
    ],
)
def test_size_has_no_insignificant_digits(given: int | None, shown: str) -> None:
    assert values.size(given) == shown


@pytest.mark.parametrize(
    ("apart", "words"),
    [
        (timedelta(seconds=20), "just now"),
        (timedelta(minutes=3), "3 min ago"),
        (timedelta(hours=30), "1 day ago"),
        (timedelta(days=9), "9 days ago"),
        (timedelta(days=65), "2 months ago"),
        (timedelta(days=800), "2 years ago"),
        (timedelta(minutes=-5), "in 5 min"),
    ],
)
def test_age_is_in_its_largest_unit(apart: timedelta, words: str) -> None:
    assert values.describe_age(NOON, now=NOON + apart) == words


def test_time_has_its_zone_and_its_age_in_the_title() -> None:
    shown = values.moment(datetime(2026, 5, 12, 2, 10, 3, tzinfo=UTC))

    assert ">12 May 2026 02:10 UTC<" in shown
    assert 'datetime="2026-05-12T02:10:03Z"' in shown
    assert "· 2026-05-12T02:10:03Z" in shown


def test_time_of_another_zone_is_shown_in_utc() -> None:
    tokyo = datetime(2026, 5, 12, 9, 0, tzinfo=timezone(timedelta(hours=9)))

    assert ">12 May 2026 00:00 UTC<" in values.moment(tokyo)


def test_unknown_value_has_its_reason_also_for_screen_readers() -> None:
    shown = values.or_unknown(None, "nobody <asked>")

    assert 'title="nobody &lt;asked&gt;"' in shown
    assert "unknown: nobody &lt;asked&gt;" in shown


def test_zero_is_a_value() -> None:
    assert values.or_unknown(0) == 0


@pytest.mark.parametrize(
    ("given", "shown"), [(None, ""), (0.0124, "+1.2"), (-0.3796, "−38"), (0.0001, "±0.0"), (-0.0004, "±0.0")]
)
def test_difference_has_a_sign(given: float | None, shown: str) -> None:
    assert values.signed(given) == shown


@pytest.mark.parametrize(
    ("given", "shown"), [(None, "–"), (60.001, "60.0 s"), (130.0, "2 min 10 s"), (7_500.0, "2 h 5 min")]
)
def test_duration_is_formatted_in_minutes_and_hours(given: float | None, shown: str) -> None:
    assert values.lasted(given) == shown


def test_command_is_quoted_for_a_shell() -> None:
    assert values.as_command(["fio", "--filename=/srv/a file", 7]) == "fio '--filename=/srv/a file' 7"


def test_number_and_unit_stay_on_one_line() -> None:
    shown = values.unbroken("4k read · QD 8 × 1 job · 2 GiB file")

    assert shown == "4k read · QD\u00a08\u00a0×\u00a01\u00a0job · 2\u00a0GiB file"


def test_mapping_with_a_key_named_items_is_listed() -> None:
    assert values.pairs({"items": "x"}) == [("items", "x")]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("{% url 'runs' %}", "/runs/"),
        ("{% url 'run' 5 %} {% url 'run' other %}", "/runs/5/ /runs/7/"),
        ("{% url name %}", "/hosts/"),
        ("{% url 'host' name='db-01' %}", "/hosts/db-01/"),
        ("{% url 'run' 5 as link %}{{ link }}{% url 'nowhere' as none %}{{ none }}", "/runs/5/"),
        ("{% url 'host' 'a&b' %}", "/hosts/a&amp;b/"),
    ],
)
def test_tag_url_finds_what_the_tag_of_django_finds(text: str, shown: str) -> None:
    template = engines["django"].from_string(text)

    # The second time from the URLs that are kept.
    assert [template.render({"other": 7, "name": "hosts"}) for _ in range(2)] == [shown, shown]


def test_tag_url_refuses_a_page_that_does_not_exist() -> None:
    with pytest.raises(NoReverseMatch):
        engines["django"].from_string("{% url 'nowhere' %}").render({})


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(200, "about 3 min left"), (20, "less than 1 min left"), (-1, "takes longer than estimated")],
)
def test_remaining_time_is_an_estimate(seconds: float, words: str) -> None:
    assert describe_remaining(seconds) == words
