"""A stand-in for nginx where there is none: what nginx.conf of `init` says, and no more of it.

It serves the tutorial's commands as `nginx -p FOLDER -c nginx.conf …`. Whether nginx itself reads
the file and holds the door is tested where nginx is installed.
"""

from __future__ import annotations

import http.client
import re
import ssl
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


def door(folder: Path) -> ThreadingHTTPServer:
    """A server that passes on the paths of the one `location` with a `proxy_pass`."""
    text = (folder / "nginx.conf").read_text()
    (outer,) = re.findall(r"listen (\d+) ssl;", text)
    ((path, inner),) = re.findall(
        r"location (\S+) \{[^{}]*(?:\{[^{}]*\}[^{}]*)?proxy_pass https://127.0.0.1:(\d+);", text
    )
    trust = ssl.create_default_context(cafile=folder / "keys/ca.crt")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            if not self.path.startswith(path) or ".." in self.path:
                return self.reply(404, [], b"")
            inside = http.client.HTTPSConnection("localhost", int(inner), context=trust)
            inside.request("POST", self.path, body, dict(self.headers))
            answer = inside.getresponse()
            self.reply(answer.status, answer.getheaders(), answer.read())
            return inside.close()

        def do_GET(self) -> None:
            self.reply(404, [], b"")

        def reply(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
            self.send_response_only(status)
            for key, value in headers:
                if key.lower() not in ("content-length", "transfer-encoding", "connection"):
                    self.send_header(key, value)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", int(outer)), Handler)
    own = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    own.load_cert_chain(folder / "keys/server.pem", folder / "keys/server.key")
    server.socket = own.wrap_socket(server.socket, server_side=True)
    return server


if __name__ == "__main__":
    door(Path(sys.argv[sys.argv.index("-p") + 1])).serve_forever()
