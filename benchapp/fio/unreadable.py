"""The one error of this room."""


class UnreadableOutput(Exception):
    """No report can be had from a text.

    code: stable, for programs: empty-output, no-report, truncated-report, no-jobs, too-many-reports, too-many-jobs
    or format-not-supported-yet. detail: a sentence for the operator of the host.
    """

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
