"""The one error of this room."""


class UnreadableOutput(Exception):
    """No report can be had from a text.

    code: stable, for programs: empty-output, no-report, truncated-report, no-jobs, unreadable-terse,
    too-many-reports, too-many-jobs or too-many-timings. detail: a sentence for the operator of the host. seen: the
    format that there are traces of, "JSON", "terse" or "text"; empty where there are none.
    """

    def __init__(self, code: str, detail: str, *, seen: str = "") -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.seen = seen
