"""Runs the figures and writes docs/Performance.md. Started by scripts/bench; see its help."""

import argparse
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import figures
import report
from server import Nginx

FULL = dict(
    large=1 << 30, small_count=10_000, medium_count=1_000, enqueue=10_000, long_queue=100_000, waiting=[100_000, 1_000_000],
    idle_seconds=60, starts=21, kills=9, load_seconds=10, results=10_000, session_count=5_000)
QUICK = dict(
    large=256 << 20, small_count=2_000, medium_count=150, enqueue=2_000, long_queue=20_000, waiting=[20_000],
    idle_seconds=3, starts=7, kills=3, load_seconds=2, results=1_000, session_count=1_000)

FIGURES = ["large", "many", "enqueue", "waiting", "idle", "killed", "loop", "collect", "sessions"]


def arguments():
    parser = argparse.ArgumentParser(
        prog="scripts/bench", description="Measures ferry beside curl, wget2 and aria2c on loopback, in one run.")
    parser.add_argument("--quick", action="store_true", help="small sizes, one round: about two minutes")
    parser.add_argument("--only", help="comma-separated figures: " + ", ".join(FIGURES))
    parser.add_argument("--rounds", type=int, help="timed rounds a figure (default 3; 1 with --quick)")
    parser.add_argument("--size", action="append", default=[], metavar="NAME=N",
                        help="changes a size (of a file, in bytes): " + ", ".join(sorted(FULL)))
    parser.add_argument("--programs", required=True, help="folder of ferry and ferryd, built for release")
    parser.add_argument("--disk", help="folder on the disk to be measured (default: a new one in .build)")
    parser.add_argument("--memory", default="/dev/shm", help="folder in memory (default /dev/shm)")
    parser.add_argument("--output", help="the page to write; default: print it")
    return parser.parse_args()


def content(root, sizes):
    """The files that the server gives out; random, so that nothing on the way can compress or share them."""
    def write(path, size):
        with open(path, "wb") as file:
            piece = os.urandom(min(size, 1 << 20))
            for start in range(0, size, len(piece)):
                file.write(piece[:size - start])
    write(os.path.join(root, "large"), sizes["large"])
    for size, count in ((4096, max(sizes["small_count"], 1000)), (1 << 20, sizes["medium_count"])):
        folder = os.path.join(root, "small", str(size))
        os.makedirs(folder)
        for index in range(count):
            write(os.path.join(folder, "%05d" % index), size)


def measure_all(bench, chosen):
    quick, sizes = bench.rounds <= 1, bench.sizes
    if "large" in chosen:
        for scheme in ("http", "https", "h2"):
            for place in ("memory", "disk") if scheme == "http" else ("memory",):
                say("one large file, %s, %s" % (scheme, place))
                figures.large_file(bench, scheme, place)
    if "many" in chosen:
        for count, size in ((sizes["small_count"], 4096), (sizes["medium_count"], 1 << 20)):
            for place, writer in (("memory", False), ("disk", False)) + (() if quick else (("disk", True),)):
                say("%d files of %d bytes, %s%s" % (count, size, place, ", beside a writer" if writer else ""))
                figures.many_files(bench, count, size, place, writer=writer)
    if "enqueue" in chosen:
        say("enqueueing")
        figures.enqueue_rates(bench)
    if "waiting" in chosen:
        for count in sizes["waiting"]:
            say("%d waiting tasks" % count)
            figures.waiting_tasks(bench, count)
    for name, figure in (("idle", figures.idle), ("killed", figures.killed), ("loop", figures.loop_latency),
                         ("loop", lambda bench: figures.loop_latency(bench, slow=True)),
                         ("collect", figures.collecting), ("sessions", figures.ordinary_sessions)):
        if name in chosen:
            say(name)
            figure(bench)


def say(text):
    print("bench: %s  (load %.1f)" % (text, os.getloadavg()[0]), file=sys.stderr, flush=True)


def main():
    options = arguments()
    sizes = dict(QUICK if options.quick else FULL)
    for item in options.size:
        name, _, value = item.partition("=")
        if name not in sizes or not value.replace(",", "").isdigit():
            sys.exit("bench: --size takes NAME=N with a name of " + ", ".join(sorted(FULL)))
        sizes[name] = [int(part) for part in value.split(",")] if name == "waiting" else int(value)
    chosen = options.only.split(",") if options.only else FIGURES
    if set(chosen) - set(FIGURES):
        sys.exit("bench: --only takes " + ", ".join(FIGURES))
    rounds = options.rounds or (1 if options.quick else 3)
    # Ctrl-C and a kill both take the way out that cleans up.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    began, load = time.time(), os.getloadavg()[0]
    disk = tempfile.mkdtemp(prefix="ferry-bench-", dir=options.disk and os.path.abspath(options.disk))
    memory = tempfile.mkdtemp(prefix="ferry-bench-", dir=os.path.abspath(options.memory))
    server = None
    try:
        root = os.path.join(memory, "root")
        os.mkdir(root)
        content(root, sizes)
        os.mkdir(os.path.join(disk, "nginx"))
        server = Nginx(os.path.join(disk, "nginx"), root)
        bench = figures.Bench(os.path.abspath(options.programs), server, sizes, {"disk": disk, "memory": memory}, rounds)
        measure_all(bench, chosen)
    finally:
        if server:
            server.stop()
        shutil.rmtree(disk, ignore_errors=True)
        shutil.rmtree(memory, ignore_errors=True)
    page = report.page(bench, dict(
        quick=options.quick, rounds=rounds, load=(load, os.getloadavg()[0]), seconds=time.time() - began, only=options.only))
    if options.output:
        with open(options.output, "w", encoding="utf8") as file:
            file.write(page)
    else:
        print(page)
    for goal in bench.goals:
        print("%-4s %-55s goal %-34s measured %s" % (
            "ok" if goal.reached else "MISS", goal.name, goal.goal, goal.measured), file=sys.stderr)


if __name__ == "__main__":
    main()
