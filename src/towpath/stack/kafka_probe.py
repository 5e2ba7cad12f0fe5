"""Whether a Kafka broker answers, asked in its own protocol and without its client.

The question is `ApiVersions`, the one that every version of Kafka answers without knowing the asker. A broker lets
clients in only when it has caught up with its own metadata, so that an answer means that it is ready.
"""

from __future__ import annotations

import socket
import struct

from towpath.stack.ports import HOST

TIMEOUT_S = 2.0
_API_VERSIONS = 18
_CORRELATION = 7
# Length; then the kind of question, its version, a number that the answer repeats, and no name of a client.
_QUESTION = struct.pack(">ihhih", 10, _API_VERSIONS, 0, _CORRELATION, -1)
_ANSWER = struct.Struct(">iih")


def answers(port: int) -> bool:
    """Whether a broker on that port says that it is well."""
    try:
        with socket.create_connection((HOST, port), TIMEOUT_S) as connection:
            connection.sendall(_QUESTION)
            said = _receive(connection, _ANSWER.size)
    except OSError:
        return False
    if len(said) < _ANSWER.size:
        return False
    _, correlation, error = _ANSWER.unpack(said)
    return bool(correlation == _CORRELATION and error == 0)


def _receive(connection: socket.socket, size: int) -> bytes:
    got = b""
    while len(got) < size and (part := connection.recv(size - len(got))):
        got += part
    return got
