"""Runtime client of Reflex: resolve which graph schema to run, publish runtime events, wait for an intervention."""

from ._client import Client
from ._context import Context
from ._records import Intervention, Override, Resume, Shadow
from ._resolve import Resolution
from ._state import State

__all__ = ["Client", "Context", "Intervention", "Override", "Resolution", "Resume", "Shadow", "State"]
__version__ = "0.1.0"
