"""Calls code so that neither an interrupt nor a broken block ends the interpreter (standard library only)."""

from __future__ import annotations

# The module `signal` calls functions that a block may replace.
import _signal  # type: ignore[import-not-found]
import builtins
from collections.abc import Callable
from errno import EAGAIN
from os import set_blocking as _set_blocking
from os import write as _write
from typing import Any, Final, TypeVar

__builtins__ = dict(vars(builtins))  # type: ignore[assignment]
"""A copy, because a block may replace names in the module `builtins`."""

_set_handler: Final = _signal.signal
_SIGINT: Final = _signal.SIGINT
_interrupt: Final = _signal.default_int_handler
_set_mask: Final = _signal.pthread_sigmask
_BLOCK: Final = _signal.SIG_BLOCK
_UNBLOCK: Final = _signal.SIG_UNBLOCK
_REPLACE: Final = _signal.SIG_SETMASK
_HELD: Final = _signal.valid_signals() - {_signal.SIGRTMAX}
"""Signals that wait while this program works: all but the one with which `block_server.py` ends it."""
_TRIES: Final = 100
"""Most tries to let signals wait. Each handler that raises meanwhile costs one try."""

Result = TypeVar("Result")


def attempt(do: Callable[..., Result], *arguments: Any) -> Result | None:
    """Call a function. Return None if it raises.

    A block can make almost every call of this program raise: with an audit hook, a signal handler, an object
    whose methods raise, or a changed standard library. The variables must survive such errors.
    """
    try:
        return do(*arguments)
    except BaseException:
        return None


def write(descriptor: int, data: bytes) -> None:
    """Write to a descriptor, also when a signal handler or a thread raises. See `Session.read`.

    Does nothing if the descriptor is closed.
    """
    written: list[int] = []
    while True:
        try:
            left = data[sum(written) :]
            if not left:
                return
            written.extend(map(_write, (descriptor,), (left,)))
        except BaseException as error:
            number = attempt(getattr, error, "errno") if attempt(is_raised_below, error) is False else None
            if number == EAGAIN:  # a program has made the descriptor non-blocking
                attempt(_set_blocking, descriptor, True)
            elif number:
                return


def is_raised_below(error: BaseException) -> bool:
    """Return whether a function that was called has raised an error: a signal handler of a block.

    `attempt` returns None if another handler raises meanwhile: only False tells that the error is not below.
    """
    return bool(error.__traceback__ and error.__traceback__.tb_next)


class Signals:
    """Lets the signals wait that come while this program works between two blocks.

    A handler of a block may raise at each step. A signal that another thread takes cannot wait.
    """

    def __init__(self) -> None:
        self._block: list[set[int]] = []
        """Signals that the block itself has blocked, while this program works."""
        self.hold()

    def hold(self) -> None:
        """Let signals wait from now on. Errors of handlers that run meanwhile are lost.

        If no memory is left for that, signals do not wait.
        """
        for _ in range(_TRIES):
            try:
                if not self._block:
                    self._block.append(_set_mask(_BLOCK, ()))
                _set_mask(_BLOCK, _HELD)
                return
            except BaseException:  # a handler has raised, perhaps before the signals waited
                pass

    def let_in(self) -> None:
        """Deliver the signals that wait, and those that come until the next `hold`."""
        if self._block:
            _set_mask(_REPLACE, self._block[0])

    def release(self) -> None:
        """Deliver signals during a block, also the SIGINT that an earlier block has held back."""
        if self._block:
            _set_mask(_REPLACE, self._block.pop())
        _set_mask(_UNBLOCK, [_SIGINT])


def ignore_interrupts() -> None:
    """Let SIGINT have no effect, except during `interruptible`."""
    _set_handler(_SIGINT, _ignore)
    _set_mask(_UNBLOCK, [_SIGINT])


def interruptible(do: Callable[..., Result], *arguments: Any) -> Result:
    """Call a function. During the call, SIGINT raises KeyboardInterrupt; afterwards SIGINT has no effect."""
    try:
        try:
            _set_handler(_SIGINT, _interrupt)
            return do(*arguments)
        finally:
            _set_handler(_SIGINT, _ignore)
    except BaseException:
        _set_handler(_SIGINT, _ignore)  # the interrupt may have come before the call above
        raise


def _ignore(*_: object) -> None:
    """Handle SIGINT between blocks. Unlike SIG_IGN, programs that a thread starts do not inherit this."""
