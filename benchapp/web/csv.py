"""Tables as CSV files that a spreadsheet opens without harm."""

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any, Final

from django.http import HttpResponse
from django.utils.http import content_disposition_header

# A spreadsheet takes a cell that begins with one of these for a formula.
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


def answer_csv(rows: Sequence[Mapping[str, Any]], file_name: str) -> HttpResponse:
    """Answer rows that all have the same keys, with a header line; None becomes an empty cell."""
    text = io.StringIO()
    if rows:
        writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: defuse(value) for name, value in row.items()} for row in rows)
    answer = HttpResponse(text.getvalue(), content_type="text/csv; charset=utf-8")
    answer["Content-Disposition"] = content_disposition_header(True, file_name) or ""
    return answer


def defuse(value: Any) -> Any:
    """Put an apostrophe before text that a spreadsheet would run."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
