"""Random tests draw the same examples in every CI run, and new ones on every developer's machine."""

import os

from hypothesis import settings

settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")
