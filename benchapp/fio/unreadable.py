"""The error raised for a text without a readable report."""


class UnreadableOutput(Exception):
    """No report can be read from a text.

    code: stable, for programs: empty-output, no-report, truncated-report, invalid-json, no-jobs, unreadable-terse,
    too-many-reports, too-many-jobs or too-many-timings. detail: a sentence for the operator of the host. seen: the
    format that was recognized, "JSON", "terse" or "text"; empty without one.
    """

    def __init__(self, code: str, detail: str, *, seen: str = "") -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.seen = seen
