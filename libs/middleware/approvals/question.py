"""Build the question about calls that wait for approval.

The question is the value of LangChain's batched interrupt, which Studio and the public chat pages read::

    {"action_requests": [{"name", "args", "description", "digest", "id"}],
     "review_configs": [{"action_name", "allowed_decisions"}]}

`id` is the id of the call. A request about a call that declares tools of MCP servers (see `declared_uses`)
also has `"uses"`, a list of `server.tool`. A request about a call that has run already also has `"effect"`:
`{"created", "changed", "deleted", "exit_code", "output", "seconds"}`, with lists of paths, and with `"more":
{"created": n, …}` if lists are shortened. If there are pictures, it has `"pictures"` (see
`effects.effect_pictures`), and the `"key"` of the call, which names the files before and after the call. If
grants cannot be saved, the question also has `"scopes": ["call"]`.

A question about one call has both shapes of LangChain: it is also the value of a `per_call` interrupt::

    {"type": "tool_approval", "tool_call_id", "name", "args", "description"}
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from libs.middleware.approvals.visible_text import visible
from libs.sandbox import declared_uses

__all__ = ["DecisionType", "Request", "command_digest", "digest", "question_about", "question_key"]

DecisionType = Literal["approve", "edit", "reject"]


@dataclass(frozen=True)
class Request:
    """One call that waits for a decision."""

    name: str
    args: Mapping[str, Any]
    call_id: str
    """Unique in the turn: the tool call id, or message id and block number."""
    note: str = ""
    """Text that is shown above the call."""
    effect: Mapping[str, Any] | None = None
    """What the call has done, as JSON, if it has run already: see `effects`."""
    effect_text: str = ""
    """The same in words."""

    @cached_property
    def digest(self) -> str:
        """The `digest` of this call."""
        return digest(self.name, self.args, self.call_id)

    @cached_property
    def uses(self) -> tuple[str, ...]:
        """The tools of MCP servers that the call declares, as `server.tool`."""
        return declared_uses(self.args.get("code" if self.name == "execute_code" else "command"))

    @property
    def description(self) -> str:
        """The whole call as text, with invisible characters written out.

        An argument with several lines states their number, so no argument can imitate the next one.
        """
        parts = [visible(self.note)] if self.note else []
        if self.uses:
            parts.append(f"May call, while it runs: {visible(', '.join(self.uses))}")
        parts.append(visible(self.name))
        for key, value in self.args.items():
            text = visible(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
            lines = text.count("\n") + 1
            parts.append(
                f"{visible(key)}: {text}" if lines == 1 else f"{visible(key)} ({lines} lines):\n{text}"
            )
        return "\n\n".join([*parts, *([self.effect_text] if self.effect_text else [])])


def digest(name: str, args: Mapping[str, Any], call_id: str) -> str:
    """Return the SHA-256, as 64 hex digits, over the canonical JSON of one call.

    Raises:
        TypeError: an argument is not JSON.
    """
    return _sha256({"name": name, "args": args, "id": call_id})


def command_digest(name: str, args: Mapping[str, Any]) -> str:
    """Return the digest of name and arguments without the id, so equal for equal calls."""
    return _sha256({"name": name, "args": args})


def _sha256(call: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(call, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def question_about(
    requests: Sequence[Request],
    offered: Callable[[str], Sequence[DecisionType]],
    *,
    lasting: bool = True,
) -> dict[str, Any]:
    """Return the question about `requests`.

    Args:
        requests: the calls to decide on.
        offered: returns the decision types that are offered for a request's name.
        lasting: whether grants can be saved, so that the scopes "command" and "tool" are offered.
    """
    question: dict[str, Any] = {
        "action_requests": [
            {
                "name": request.name,
                "args": dict(request.args),
                "description": request.description,
                "digest": request.digest,
                "id": request.call_id,
                **({"uses": list(request.uses)} if request.uses else {}),
                **({"effect": dict(request.effect)} if request.effect is not None else {}),
            }
            for request in requests
        ],
        "review_configs": [
            {"action_name": request.name, "allowed_decisions": list(offered(request.name))}
            for request in requests
        ],
    }
    if not lasting:
        question["scopes"] = ["call"]
    if len(requests) > 1:
        return question
    [request] = requests
    return {
        "type": "tool_approval",
        "tool_call_id": request.call_id,
        "name": request.name,
        "args": dict(request.args),
        "description": request.description,
        **question,
    }


def question_key(question: Mapping[str, Any]) -> str:
    """Return the key of a question, which is unique in its node: the digest of its first call."""
    key: str = question["action_requests"][0]["digest"]
    return key
