"""Studies for the tests of their pages."""

from typing import Any

from benchapp.models import Study

QUERY = "q=host:db-1&x=volume_count&metric=iops&color=pattern"


def make_study(**fields: Any) -> Study:
    """Create a study with one chart of the rows of `make_measured_volumes`."""
    panel = {"kind": "scaling", "query": QUERY, "title": "Reads", "text": "as *measured*"}
    return Study.objects.create(**{"title": "Disks", "text": "", "panels": [panel], **fields})
