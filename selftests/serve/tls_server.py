# SPDX-License-Identifier: MIT
"""A daemon that is asked by TLS, with a key, and its certificate."""
import http.client
import os
import socket

import certs
from rlxd import BUILD, Server

VISION_CONF = "[model vision]\npath = %s\n" % os.path.abspath(BUILD + "/serve/vision.onnx")
SECRET = "alice-secret-0123456789"
AUTH = {"Authorization": "Bearer " + SECRET}
DIR = certs.DIR
KEY = "[key alice]\nsecret_file = %s/secret\n" % DIR

certs.ca("ca")
certs.cert("server")
with open(DIR + "/secret", "w") as secret:
    secret.write(SECRET + "\n")
os.chmod(DIR + "/secret", 0o600)


def https(where):
    return "%s://%s" % ("https", where)


class TlsServer(Server):
    """One that is asked by TLS, and on a second port without."""

    def __init__(self, sections=VISION_CONF, cert="server", server="", **args):
        args.setdefault("listen", "127.0.0.1:0 tls:127.0.0.1:0")
        Server.__init__(self, sections + KEY, certs.options(cert) + server, **args)

    def plain(self, timeout=10):
        return socket.create_connection(("127.0.0.1", self.tls_port),
                                        timeout=timeout * self.slow)

    def connect(self, timeout=30, ctx=None):
        s = (ctx or certs.context()).wrap_socket(self.plain(timeout), server_hostname="localhost")
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return s

    def url(self, path):
        return https("localhost:%d%s" % (self.tls_port, path))

    def http(self, timeout=600):
        return http.client.HTTPSConnection("localhost", self.tls_port, timeout=timeout,
                                           context=certs.context())

    def get(self, path, headers=None, method="GET", body=None):
        return Server.get(self, path, AUTH if headers is None else headers, method, body)
