#!/usr/bin/env python3
"""An app that ferryd launches, in Python's standard library.

    background_app.py BOOK BEHAVIOUR

Writes what it does into the file BOOK, one JSON object a line. BEHAVIOUR is one of
    collect     attaches, takes and acknowledges everything, reports it handled, ends
    quiet       the same without the report
    second      the same, but dies with the second completion in hand, the first time
    crash       ends with status 3 before it connects
    hang        does nothing, and does not hear SIGTERM
    linger      takes everything, reports nothing, stays
    answer      answers what its tasks ask with a user and a password, then as collect
"""

import json
import os
import signal
import socket
import sys
import time

book, behaviour = sys.argv[1], sys.argv[2]


def note(**members):
    with open(book, "a", encoding="utf-8") as file:
        file.write(json.dumps(dict(members, pid=os.getpid(), launch=launch)) + "\n")


launch = int(os.environ.get("FERRY_LAUNCH", "0"))
app = os.environ["FERRY_APP_ID"]
name = os.environ.get("FERRY_LAUNCH_SESSION", "s")
note(event="started", reason=os.environ.get("FERRY_LAUNCH_REASON"), session=name, environment=sorted(os.environ),
     folder=os.getcwd(), descriptors=sorted(int(fd) for fd in os.listdir("/proc/self/fd"))[:8],
     leader=os.getsid(0) == os.getpid())
print("this is launch %d" % launch, flush=True)

if behaviour == "crash":
    print("no such luck", file=sys.stderr, flush=True)
    sys.exit(3)
if behaviour == "hang":
    signal.signal(signal.SIGTERM, lambda *_: note(event="asked to end"))
    while True:
        time.sleep(60)  # sleep: it hangs on purpose

last = 0


def request(method, params):
    global last
    last += 1
    return json.dumps({"jsonrpc": "2.0", "id": last, "method": method, "params": params}).encode() + b"\n"


for attempt in range(200):
    # A daemon that has just died comes back. One that is dying takes a connection, and answers nothing.
    try:
        link = socket.socket(socket.AF_UNIX)
        link.connect(os.path.join(os.environ["FERRY_HOME"], "ferryd.sock"))
        lines = link.makefile("rb")
        link.sendall(request("hello", dict(version=1, client="background_app/1")))
        if lines.readline():
            break
    except OSError:
        pass
    time.sleep(0.05)


def call(method, **params):
    link.sendall(request(method, params))
    while True:
        message = json.loads(lines.readline())
        if message.get("id") == last:
            if "error" in message:
                note(event="error", error=message["error"])
                sys.exit(4)
            return message["result"]
        waiting.append(message)


waiting = []
if behaviour != "quiet":
    call("app.attach", app=app, state="background", launch=launch)
session = call("session.open", app=app, identifier=name, attach=True, collectsResults=True, network={},
               answersChallenges=behaviour == "answer")["session"]
completions = 0
while True:
    message = waiting.pop(0) if waiting else json.loads(lines.readline() or b"{}")
    if not message:
        note(event="daemon ended")
        sys.exit(5)
    if message.get("method") == "task.question" and behaviour == "answer":
        task = message["params"]["task"]
        note(event="question", task=task["id"], kind=task["question"]["kind"], number=task["question"]["number"])
        call("task.answer", id=task["id"], question=task["question"]["number"], answer="credential",
             credential={"user": "ann", "password": "pw-5f3a91c07e"})
    if message.get("method") != "delivery":
        continue
    delivery = message["params"]
    kind = delivery["kind"]
    if kind == "completion":
        completions += 1
        if behaviour == "second" and launch == 1 and completions == 2:
            note(event="dying")
            os.kill(os.getpid(), signal.SIGKILL)
    note(event="delivery", kind=kind, number=delivery["number"], task=delivery.get("task", {}).get("id"))
    call("delivery.acknowledge", session=session, numbers=[delivery["number"]])
    if kind == "finishEvents":
        break
if behaviour == "linger":
    note(event="lingering")
    while True:
        time.sleep(60)  # sleep: it stays on purpose
if behaviour != "quiet":
    call("app.handled", app=app, session=name, launch=launch)
    note(event="handled")
