"""Approval by effect: a call runs at once, without network, and a person is asked about what it has done.

In: calls that no rule and no earlier approval covers. Out: the decision on each. A rejected effect is undone.
This folder needs the captures of `libs.workspace.history`, so it is imported at the first such call.
"""

from __future__ import annotations

from libs.middleware.approvals.effects.effect_calls import EffectCalls
from libs.middleware.approvals.effects.free_paths import free_changes

__all__ = ["EffectCalls", "free_changes"]
