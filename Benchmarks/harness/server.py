"""nginx on loopback: HTTP, HTTPS and HTTP/2 on ports that the kernel chose."""

import os
import socket
import subprocess
import time


def free_ports(count):
    """Ports that the kernel gives out now. Another program could take one before nginx does; then nginx says so."""
    links = [socket.socket() for _ in range(count)]
    for link in links:
        link.bind(("127.0.0.1", 0))
    ports = [link.getsockname()[1] for link in links]
    for link in links:
        link.close()
    return ports


CONFIGURATION = """
daemon off; master_process on; worker_processes %(workers)d; pid %(folder)s/nginx.pid; error_log %(folder)s/error.log warn;
worker_rlimit_nofile 8192;
%(user)s
events { worker_connections 4096; }
http {
  access_log off; sendfile on; tcp_nopush on; keepalive_requests 10000000; keepalive_timeout 300s;
  types { } default_type application/octet-stream; etag on;
  client_body_temp_path %(folder)s/body; proxy_temp_path %(folder)s/proxy; fastcgi_temp_path %(folder)s/f;
  uwsgi_temp_path %(folder)s/u; scgi_temp_path %(folder)s/s;
  ssl_certificate %(folder)s/server.pem; ssl_certificate_key %(folder)s/server.key; ssl_session_cache shared:s:1m;
  server { listen 127.0.0.1:%(http)d backlog=4096 reuseport; root %(root)s;
    location /slow/ { alias %(root)s/; limit_rate 4k; }
    location /steady/ { alias %(root)s/; limit_rate 1m; } }
  server { listen 127.0.0.1:%(https)d ssl; root %(root)s; }
  server { listen 127.0.0.1:%(h2)d ssl http2; http2_max_requests 10000000; root %(root)s; }
}
"""


class Nginx:
    def __init__(self, folder, root, workers=1):
        self.folder = folder
        self.root = root
        os.makedirs(folder, exist_ok=True)
        self.certificate = os.path.join(folder, "server.pem")
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
             "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", os.path.join(folder, "server.key"),
             "-out", self.certificate], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.http, self.https, self.h2 = free_ports(3)
        path = os.path.join(folder, "nginx.conf")
        with open(path, "w", encoding="ascii") as file:
            file.write(CONFIGURATION % dict(
                folder=folder, root=root, http=self.http, https=self.https, h2=self.h2, workers=workers,
                user="user root;" if os.geteuid() == 0 else ""))
        program = "/usr/sbin/nginx" if os.path.exists("/usr/sbin/nginx") else "nginx"
        self.process = subprocess.Popen(
            [program, "-p", folder, "-c", path], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=open(os.path.join(folder, "start.log"), "wb"))
        end = time.monotonic() + 10
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.h2), 1).close()
                return
            except OSError:
                if self.process.poll() is not None or time.monotonic() > end:
                    raise RuntimeError("nginx does not start: %s" % open(os.path.join(folder, "start.log")).read())
                time.sleep(0.01)

    def url(self, name, scheme="http"):
        port = {"http": self.http, "https": self.https, "h2": self.h2}[scheme]
        return "%s://127.0.0.1:%d/%s" % ("http" if scheme == "http" else "https", port, name)

    def stop(self):
        self.process.terminate()
        self.process.wait()
