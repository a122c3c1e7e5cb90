# SPDX-License-Identifier: MIT
"""Certificates that the tests make for themselves, by the command openssl."""
import atexit
import os
import shutil
import ssl
import subprocess
import tempfile

DIR = tempfile.mkdtemp(prefix="rlxd-tls-")
atexit.register(shutil.rmtree, DIR, ignore_errors=True)


def openssl(*args):
    subprocess.run(("openssl",) + args, cwd=DIR, check=True, capture_output=True)


def ca(name):
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
            "-keyout", name + ".key", "-out", name + ".pem", "-days", "2", "-subj", "/CN=" + name)


def cert(name, by="ca", days=2, host="localhost", rsa=False):
    """NAME.pem and NAME.key, signed by the CA."""
    kind = ("rsa:2048",) if rsa else ("ec", "-pkeyopt", "ec_paramgen_curve:P-256")
    openssl("req", "-newkey", *kind, "-nodes", "-keyout", name + ".key", "-out", name + ".csr",
            "-subj", "/CN=" + host)
    with open(DIR + "/ext", "w") as f:
        f.write("subjectAltName=DNS:%s,IP:127.0.0.1\n" % host)
    openssl("x509", "-req", "-in", name + ".csr", "-CA", by + ".pem", "-CAkey", by + ".key",
            "-CAcreateserial", "-days", str(days), "-extfile", "ext", "-out", name + ".pem")
    os.chmod(DIR + "/" + name + ".key", 0o600)


def options(name):
    """The lines of [server] that name it."""
    return "tls_certificate = %s/%s.pem\ntls_key = %s/%s.key\n" % (DIR, name, DIR, name)


def context(ca="ca", alpn=None, **versions):
    c = ssl.create_default_context(cafile="%s/%s.pem" % (DIR, ca))
    for k, v in versions.items():
        setattr(c, k + "_version", v)
    if alpn:
        c.set_alpn_protocols(alpn)
    return c
