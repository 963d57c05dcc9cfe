"""Approval by effect: a call runs at once, without network, and a person is asked about what it has done.

In: calls that nothing covers. Out: the decision on each. What is rejected is undone. Needs the captures of
`libs.workspace.history`, so it is imported only where APPROVALS is `effects`.
"""

from __future__ import annotations

from libs.middleware.approvals.effects.effect_calls import EffectCalls
from libs.middleware.approvals.effects.free_paths import free_changes

__all__ = ["EffectCalls", "free_changes"]
