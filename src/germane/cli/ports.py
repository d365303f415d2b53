"""Whether a port can be listened on."""

import socket


def check_port(host: str, port: int) -> None:
    """Say at once that somebody else listens there."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            words = f"cannot listen on {host}:{port} ({error.strerror}); choose another --port"
            raise OSError(words) from None
