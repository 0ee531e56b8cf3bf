"""Requests and answers as they go over the wire."""

import socket
from urllib.parse import urlsplit


def connected(served):
    address = urlsplit(served.address)
    return socket.create_connection((address.hostname, address.port), timeout=300.0)


def spoken(method, path, body=b"", *headers):
    """A request as it goes over the wire."""
    if "transfer-encoding: chunked" in headers:
        body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    elif not any(header.startswith("content-length") for header in headers):
        headers = (*headers, f"content-length: {len(body)}")
    lines = [f"{method} {path} HTTP/1.1", "host: 127.0.0.1", *headers, "", ""]
    return "\r\n".join(lines).encode("latin-1") + body


LAST = spoken("GET", "/healthz", b"", "connection: close")


def answers_of(caller):
    """Every answer on a connection, as (status, content), until it is closed."""
    stream, answers = caller.makefile("rb"), []
    while line := stream.readline():
        lengths = [0]
        while (header := stream.readline()).strip():
            name, _, value = header.partition(b": ")
            lengths += [int(value)] if name == b"content-length" else []
        answers.append((int(line.split()[1]), stream.read(lengths[-1])))
    return answers
