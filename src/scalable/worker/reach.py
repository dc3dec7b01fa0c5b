"""Why a worker does not get through to its scheduler: a plain connection is tried, which tells more than a time-out."""

from __future__ import annotations

import socket

TRY_S = 3.0  # a machine that lets connections through answers within milliseconds


def why_not(address: str, within: float) -> str:
    """What is wrong with an address such as ``tls://10.0.0.1:8786`` that did not answer within so many seconds."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), TRY_S).close()
    except socket.gaierror:
        return f"the name {host} is not known on {socket.gethostname()}"
    except ConnectionRefusedError:
        return "connection refused: nothing listens there, or the scheduler has ended"
    except TimeoutError:
        return f"no answer within {within:g} s: a firewall between {socket.gethostname()} and it, or another network"
    except OSError as error:
        return str(error.strerror or error).lower()
    return f"the port is open, but no scheduler of this run answered within {within:g} s"
