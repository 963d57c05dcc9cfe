"""Becomes an MCP server whose standard streams are connections to the host (standard library only).

`stream_starter.py FOLDER COMMAND [ARGUMENT...]`, run before anything else in the sandbox of the server: the
host takes its first connection for the input and output of the server, the second for its errors.
"""

from __future__ import annotations

import os
import signal
import socket
import sys

for number in (0, 2):
    link = socket.socket(socket.AF_UNIX)
    link.connect("\0sandbox-proxy-" + os.environ["HTTP_PROXY"].rpartition(":")[2])
    os.dup2(link.fileno(), number)
os.dup2(0, 1)
signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # as a shell would start it
try:
    os.chdir(sys.argv[1])
    os.execvp(sys.argv[2], sys.argv[2:])  # noqa: S606 - a shell would change the words
except OSError as error:
    sys.exit(f"{error.filename or sys.argv[2]} in the sandbox: {error.strerror}")
