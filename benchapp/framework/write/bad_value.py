"""Invalid values of a body, a form or a configuration file."""


class BadValue(Exception):
    """An invalid value; the message gives the reason. field: name or path, as `panels/0/query`; "" for the whole."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field

    @property
    def pointer(self) -> str:
        """Return the JSON pointer of the value, "" for the whole."""
        return f"/{self.field}" if self.field else ""
