from datetime import datetime
from typing import Annotated

from msgspec import Meta

# Aware: a schema calls only these date-time.
Time = Annotated[datetime, Meta(tz=True)]
