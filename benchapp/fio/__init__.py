"""Any output of fio → Report: pure, without Django and without a database."""

from benchapp.fio.output import PARSER_VERSION, read_output
from benchapp.fio.report import UnreadableOutput

__all__ = ["PARSER_VERSION", "UnreadableOutput", "read_output"]
