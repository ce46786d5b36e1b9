"""Ages, counts, shares and values with units as text."""

from benchapp.catalog.metrics import format_change_size as format_change_size
from benchapp.catalog.metrics import format_count as format_count
from benchapp.catalog.metrics import format_integer as format_integer
from benchapp.catalog.metrics import format_percent as format_percent
from benchapp.catalog.metrics import format_signed_percent as format_signed_percent
from benchapp.catalog.metrics import format_with_unit as format_with_unit
from benchapp.framework.times import describe_age as describe_age
from benchapp.framework.times import format_age as format_age
