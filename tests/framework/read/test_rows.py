import pytest

from benchapp.models import ENVIRONMENT_FIELDS, TARGET_FIELDS, WORKLOAD_FIELDS
from benchapp.series.read.shapes import EnvironmentRow, TargetRow, WorkloadRow, names_of


@pytest.mark.parametrize(
    ("kind", "columns"),
    [(TargetRow, TARGET_FIELDS), (WorkloadRow, WORKLOAD_FIELDS), (EnvironmentRow, ENVIRONMENT_FIELDS)],
)
def test_row_mirrors_the_columns_of_its_model(kind, columns):
    assert names_of(kind) == columns


def test_known_fields_of_a_target_leave_out_the_unknown():
    assert TargetRow(filesystem="ext4", volume_count=0).known() == {"volume_count": 0, "filesystem": "ext4"}
