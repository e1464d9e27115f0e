"""rephaze: the accelerator chip and the way to spread training over thousands of them, found together.

An independent implementation of, and successor to, the system of "Integrated Hardware Architecture and
Device Placement Search" (ICML 2024).
"""

from rephaze.api import explore, list_models

__all__ = ["explore", "list_models"]
