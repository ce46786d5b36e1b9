from tests.api_visitors import *  # noqa: F403
