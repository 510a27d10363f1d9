#!/usr/bin/env python3
"""A client of ferryd in Python's standard library, written from docs/Protocol.md alone.

    protocol_client.py run [--app ID] [--session NAME] [--to FILE] [--sha256 HEX] [--key KEY] [--upload FILE]
                           [--data] [--linger SECONDS] [--no-acknowledge] [--timeout SECONDS] URL...
        opens a session, enqueues a task for each URL, follows them, collects and acknowledges their results
    protocol_client.py collect [--app ID] [--session NAME] [--count N] [--linger SECONDS] [--no-acknowledge]
                               [--timeout SECONDS]
        attaches and collects what waits, until N completions came or finishEvents did
    protocol_client.py list                  all tasks, page by page
    protocol_client.py watch ID...           follows tasks until each has ended
    protocol_client.py call METHOD [PARAMS]  one request; prints its reply
    protocol_client.py raw                   sends standard input as it is, prints what comes until the daemon closes

A result is looked at (its file's SHA-256 is told) and kept for --linger before it is acknowledged, as an app does.
Prints one JSON object a line. Exit status: 0 all succeeded, 1 a task failed or was cancelled, 2 an error reply, 3 no daemon,
4 the time is over.
"""

import argparse
import base64
import collections
import hashlib
import json
import os
import socket
import struct
import sys
import time

ENDED = ("succeeded", "failed", "cancelled")


def emit(**members):
    print(json.dumps(members), flush=True)


def private_parent(path):
    try:
        status = os.stat(path)
    except OSError:
        return False
    return status.st_uid == os.getuid() and status.st_mode & 0o077 == 0


def socket_paths():
    """The paths to try, best first."""
    environment = os.environ
    home = environment.get("FERRY_HOME")
    if home:
        state, usual = home, os.path.join(home, "ferryd.sock")
    else:
        base = environment.get("XDG_STATE_HOME", "")
        state = os.path.join(base if base.startswith("/") else os.path.expanduser("~/.local/state"), "ferry")
        usual = "/tmp/ferry-%d/ferryd.sock" % os.getuid()
        for folder in (environment.get("XDG_RUNTIME_DIR", ""), "/run/user/%d" % os.getuid()):
            if folder.startswith("/") and private_parent(folder):
                usual = os.path.join(folder, "ferry", "ferryd.sock")
                break
    paths = []
    try:
        with open(os.path.join(state, "ferryd.lock"), encoding="utf-8") as lock:
            lines = lock.read().split("\n")
        if len(lines) >= 3 and lines[1].startswith("/"):
            paths.append(lines[1])
    except OSError:
        pass
    if usual not in paths:
        paths.append(usual)
    return paths


def connect(path):
    """Connects; a path that is too long for the kernel is reached through its folder's descriptor."""
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    if len(os.fsencode(path)) <= 107:
        link.connect(path)
    else:
        folder = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY)
        try:
            link.connect("/proc/self/fd/%d/%s" % (folder, os.path.basename(path)))
        finally:
            os.close(folder)
    credentials = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("iII"))
    if struct.unpack("iII", credentials)[1] not in (0, os.getuid()):
        raise OSError("the process that listens at %s belongs to another user" % path)
    return link


class ErrorReply(Exception):
    pass


class TimeIsOver(Exception):
    pass


class Daemon:
    """One connection: requests out, replies and notifications in."""

    def __init__(self, timeout):
        self.deadline = time.monotonic() + timeout
        self.link = None
        reasons = []
        for path in socket_paths():
            try:
                self.link = connect(path)
                break
            except OSError as error:
                reasons.append("%s: %s" % (path, error))
        if self.link is None:
            sys.stderr.write("no ferryd answers (%s)\n" % "; ".join(reasons))
            sys.exit(3)
        self.buffer = b""
        self.last = 0
        self.notifications = collections.deque()

    def read_line(self):
        """The next line without its end; None when the daemon closed."""
        while b"\n" not in self.buffer:
            left = self.deadline - time.monotonic()
            if left <= 0:
                raise TimeIsOver()
            self.link.settimeout(left)
            try:
                chunk = self.link.recv(65536)
            except socket.timeout:
                raise TimeIsOver() from None
            except ConnectionResetError:
                chunk = b""
            if not chunk:
                return None
            self.buffer += chunk
        line, self.buffer = self.buffer.split(b"\n", 1)
        return line

    def read(self):
        line = self.read_line()
        if line is None:
            sys.stderr.write("ferryd closed the connection\n")
            sys.exit(3)
        return json.loads(line.decode("utf-8"))

    def send(self, method, params):
        self.last += 1
        request = {"jsonrpc": "2.0", "id": self.last, "method": method, "params": params}
        self.link.sendall(json.dumps(request, ensure_ascii=False).encode("utf-8") + b"\n")
        return self.last

    def call(self, method, params):
        wanted = self.send(method, params)
        while True:
            message = self.read()
            if "method" in message:
                self.notifications.append(message)
            elif message.get("id") == wanted:
                if "error" in message:
                    raise ErrorReply(message["error"])
                return message["result"]

    def notification(self):
        return self.notifications.popleft() if self.notifications else self.read()

    def hello(self):
        return self.call("hello", {"version": 1, "client": "protocol_client.py/1"})


def network():
    """By curl's rule; http_proxy in lower case only."""

    def first(*names):
        return next((os.environ[name] for name in names if os.environ.get(name)), None)

    settings = {
        "httpProxy": first("http_proxy", "all_proxy", "ALL_PROXY"),
        "httpsProxy": first("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"),
        "noProxy": first("no_proxy", "NO_PROXY"),
        "certificateFile": first("SSL_CERT_FILE"),
    }
    return {name: value for name, value in settings.items() if value is not None}


def open_session(daemon, options):
    result = daemon.call(
        "session.open",
        {
            "app": options.app,
            "identifier": options.session,
            "attach": True,
            "collectsResults": True,
            "network": network(),
        },
    )
    emit(event="session", **result)
    return result["session"]


def specification(url, options, index):
    task = {"kind": "upload" if options.upload else "data" if options.data else "download", "url": url}
    if options.upload:
        task["source"] = os.path.realpath(options.upload)
    if options.to:
        folder, name = os.path.split(os.path.abspath(options.to))
        task["destination"] = os.path.join(os.path.realpath(folder), name)
    if options.sha256:
        task["sha256"] = options.sha256
    if options.key:
        task["key"] = options.key if index == 0 else "%s-%d" % (options.key, index)
    return task


def collect(daemon, session, options, wanted):
    """Handles deliveries until `wanted` completions came (None: until finishEvents). Returns the states of the tasks."""
    handled = set()
    states = []
    while wanted is None or len(states) < wanted:
        message = daemon.notification()
        params = message.get("params", {})
        if message.get("method") != "delivery" or params["session"] != session:
            tell(message)
            continue
        if params["number"] in handled:
            continue
        handled.add(params["number"])
        task = params.get("task", {})
        emit(event="delivery", number=params["number"], kind=params["kind"], task=task, sha256=digest(task.get("file")))
        if options.linger:
            time.sleep(options.linger)
        if not options.no_acknowledge:
            daemon.call("delivery.acknowledge", {"session": session, "numbers": [params["number"]]})
            emit(event="acknowledged", number=params["number"])
        if params["kind"] == "completion":
            states.append(task["state"])
        if params["kind"] == "finishEvents" and wanted is None:
            break
    return states


def digest(path):
    if path is None:
        return None
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def tell(message):
    if message.get("method") == "task.data":
        emit(event="task.data", id=message["params"]["id"], count=len(base64.b64decode(message["params"]["bytes"])))
    elif "method" in message:
        emit(event=message["method"], **message["params"])


def exit_status(states):
    return 0 if all(state == "succeeded" for state in states) else 1


def run(daemon, options):
    session = open_session(daemon, options)
    tasks = [specification(url, options, index) for index, url in enumerate(options.urls)]
    receipts = daemon.call("task.enqueue", {"session": session, "tasks": tasks})["tasks"]
    for receipt in receipts:
        emit(event="receipt", **receipt)
    accepted = [receipt["id"] for receipt in receipts if "id" in receipt]
    states = collect(daemon, session, options, len(set(accepted)))
    return 1 if len(accepted) < len(receipts) else exit_status(states)


def watch(daemon, options):
    waiting = set(options.ids)
    result = daemon.call("task.watch", {"ids": options.ids})
    waiting.difference_update(result["unknown"])
    states = ["unknown"] * len(result["unknown"])
    while waiting:
        message = daemon.notification()
        tell(message)
        if message.get("method") == "task.state":
            task = message["params"]["task"]
            if task["id"] in waiting and task["state"] in ENDED:
                waiting.discard(task["id"])
                states.append(task["state"])
    return exit_status(states)


def list_tasks(daemon, _):
    after = None
    while True:
        page = daemon.call("task.list", {} if after is None else {"after": after})
        for task in page["tasks"]:
            emit(event="task", task=task)
        after = page.get("next")
        if after is None:
            return 0


def raw(daemon, _):
    daemon.link.sendall(sys.stdin.buffer.read())
    while True:
        line = daemon.read_line()
        if line is None:
            return 0
        print(line.decode("utf-8"), flush=True)


def main():
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--timeout", type=float, default=30.0)
    session = argparse.ArgumentParser(add_help=False)
    session.add_argument("--app", default="protocol-client")
    session.add_argument("--session", default="default")
    session.add_argument("--no-acknowledge", action="store_true")
    session.add_argument("--linger", type=float, default=0.0)
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("run", parents=[common, session])
    for name in ("--to", "--sha256", "--key", "--upload"):
        command.add_argument(name)
    command.add_argument("--data", action="store_true")
    command.add_argument("urls", nargs="+")
    command = commands.add_parser("collect", parents=[common, session])
    command.add_argument("--count", type=int)
    commands.add_parser("list", parents=[common])
    command = commands.add_parser("watch", parents=[common])
    command.add_argument("ids", nargs="+", type=int)
    command = commands.add_parser("call", parents=[common])
    command.add_argument("method")
    command.add_argument("params", nargs="?", default="{}")
    commands.add_parser("raw", parents=[common])
    options = parser.parse_args()

    daemon = Daemon(options.timeout)
    try:
        if options.command == "raw":
            return raw(daemon, options)
        emit(event="hello", **daemon.hello())
        if options.command == "run":
            return run(daemon, options)
        if options.command == "collect":
            return exit_status(collect(daemon, open_session(daemon, options), options, options.count))
        if options.command == "watch":
            return watch(daemon, options)
        if options.command == "call":
            emit(event="result", result=daemon.call(options.method, json.loads(options.params)))
            return 0
        return list_tasks(daemon, options)
    except ErrorReply as reply:
        emit(event="error", error=reply.args[0])
        return 2
    except TimeIsOver:
        emit(event="timeout")
        return 4


if __name__ == "__main__":
    sys.exit(main())
