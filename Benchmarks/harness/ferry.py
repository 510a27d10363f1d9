"""A daemon of our own, in a folder of its own, and a client that spaces nothing out: requests are prepared bytes, replies
are looked through as bytes, so that what is measured is the daemon."""

import json
import os
import re
import signal
import socket
import subprocess
import time

import measure


class Daemon:
    """`ferryd` under its supervisor or in the foreground, with FERRY_HOME in `home`."""

    def __init__(self, programs, home, supervised=False, wrapper=(), environment=None):
        self.home = home
        self.programs = programs
        os.makedirs(home, mode=0o700, exist_ok=True)
        self.environment = dict(os.environ, FERRY_HOME=home, **(environment or {}))
        for name in ("http_proxy", "https_proxy", "all_proxy", "HTTPS_PROXY", "ALL_PROXY"):
            self.environment.pop(name, None)
        mode = "--supervise" if supervised else "--foreground"
        self.log = open(os.path.join(home, "foreground.log"), "ab")
        self.began = time.perf_counter()
        self.process = subprocess.Popen(
            [*wrapper, os.path.join(programs, "ferryd"), mode], env=self.environment,
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        self.pid = self.wait_ready()

    def socket_path(self):
        return os.path.join(self.home, "ferryd.sock")

    def wait_ready(self, timeout=60):
        """Until it answers; returns the daemon's process id."""
        end = time.monotonic() + timeout
        while True:
            try:
                client = Client(self)
                pid = client.pid
                client.close()
                self.ready_after = time.perf_counter() - self.began
                return pid
            except (OSError, EOFError):
                if self.process.poll() is not None:
                    raise RuntimeError("ferryd ended with %d" % self.process.returncode)
                if time.monotonic() > end:
                    raise RuntimeError("ferryd does not answer")
                time.sleep(0.001)

    def cpu(self):
        return measure.cpu_clock(self.pid)

    def memory(self):
        return measure.memory(self.pid)

    def status(self):
        client = Client(self)
        try:
            return client.call("daemon.status", {})
        finally:
            client.close()

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.log.close()


class Client:
    def __init__(self, daemon, name="bench/1"):
        self.link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self.link.connect(daemon.socket_path())
        except OSError:
            self.link.close()
            raise
        self.buffer = bytearray()
        self.next_id = 1
        self.notices = []
        self.pid = self.call("hello", {"version": 1, "client": name})["pid"]

    def close(self):
        self.link.close()

    def send(self, data):
        self.link.sendall(data)

    def request(self, method, params):
        number = self.next_id
        self.next_id += 1
        return number, (json.dumps(
            {"jsonrpc": "2.0", "id": number, "method": method, "params": params}, separators=(",", ":")) + "\n").encode()

    def receive(self):
        """Some bytes more in `buffer`."""
        data = self.link.recv(1 << 20)
        if not data:
            raise EOFError("the daemon closed the connection")
        self.buffer += data

    def line(self):
        while True:
            end = self.buffer.find(b"\n")
            if end >= 0:
                line = bytes(self.buffer[:end])
                del self.buffer[:end + 1]
                return line
            self.receive()

    def reply(self, number):
        while True:
            message = json.loads(self.line())
            if message.get("id") == number:
                if "error" in message:
                    raise RuntimeError("%s" % message["error"])
                return message["result"]
            self.notices.append(message)

    def call(self, method, params):
        number, data = self.request(method, params)
        self.send(data)
        return self.reply(number)

    def open(self, identifier, attach=True, collects=True, connections=6, certificate=None):
        network = {"maximumConnectionsPerHost": connections}
        if certificate:
            network["certificateFile"] = certificate
        result = self.call(
            "session.open",
            {"app": "bench", "identifier": identifier, "attach": attach, "collectsResults": collects, "network": network})
        return result["session"]

    def enqueue(self, session, tasks):
        return [task["id"] for task in self.call("task.enqueue", {"session": session, "tasks": tasks})["tasks"]]

    NUMBER = re.compile(rb'"number":(\d+)')

    def collect(self, session, count, deadline=600, send=None):
        """Takes results, acknowledging (by `send`) what each read brought, until `count` completions came. Of a delivery only its
        kind and number are looked at; keys may come in any order, so its own number is the one outside of `task`."""
        done = failed = 0
        self.link.settimeout(deadline)
        while done < count:
            numbers = []
            end = self.buffer.rfind(b"\n")
            if end >= 0:
                block = bytes(self.buffer[:end])
                del self.buffer[:end + 1]
                for line in block.split(b"\n"):
                    if b'"delivery"' not in line:
                        continue
                    params = delivery(line)
                    numbers.append(params[0])
                    if params[1] == b"completion":
                        done += 1
                        if b'"state":"succeeded"' not in line:
                            failed += 1
                if numbers:
                    (send or self.send)(self.request("delivery.acknowledge", {"session": session, "numbers": numbers})[1])
            if done < count:
                self.receive()
        self.link.settimeout(None)
        return failed


BRACE = re.compile(rb"[{}]")
KIND = re.compile(rb'"kind":"(\w+)"')


def delivery(line):
    """(number, kind) of a delivery notification. Members come in any order, and the task has a number and a kind too, so
    it is cut out by its braces; none of the texts of these figures has a brace."""
    start = line.find(b'"task":{')
    if start >= 0:
        depth = 0
        for found in BRACE.finditer(line, start):
            depth += 1 if found.group() == b"{" else -1
            if depth == 0:
                line = line[:start] + line[found.end():]
                break
    return int(Client.NUMBER.search(line).group(1)), KIND.search(line).group(1)


def download(url, destination=None, **more):
    task = {"kind": "download", "url": url, **more}
    if destination:
        task["destination"] = destination
        task.setdefault("collision", "replace")
    return task
