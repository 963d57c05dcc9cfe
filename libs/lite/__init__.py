"""An agent small enough to be read in one sitting: a loop, a strict protocol, three tools, one folder.

Read `protocol.py`, `sandbox_path.py`, `tools.py`, `model.py`, `loop.py`, in this order. It runs no command
and needs neither LangChain nor Docker.
"""

from libs.lite.errors import LiteError
from libs.lite.loop import FinalStep, Model, Step, ToolStep, run_lite
from libs.lite.model import LiteModel

__all__ = ["FinalStep", "LiteError", "LiteModel", "Model", "Step", "ToolStep", "run_lite"]
