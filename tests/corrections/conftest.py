from tests.page_visitors import *  # noqa: F403
