"""Studies for the tests of their pages."""

from typing import Any

from benchapp.models import Study

QUERY = "q=host:db-1&x=volume_count&metric=iops&color=pattern"


def make_study(**fields: Any) -> Study:
    """Make a study of one chart, of what the fixture `measured` makes."""
    panel = {"kind": "scaling", "query": QUERY, "title": "Reads", "words": "as *measured*"}
    return Study.objects.create(**{"title": "Disks", "words": "", "panels": [panel], **fields})
