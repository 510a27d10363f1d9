"""The page docs/Performance.md, from the figures of one run."""

import os
import re
import subprocess
import time


def first_line(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.split("\n")[0]
    except OSError:
        return ""


def machine():
    """The kind of machine, without a name."""
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as info:
        text = info.read()
    model = re.search(r"model name\s*:\s*(.*)", text)
    virtual = "hypervisor" in text
    with open("/proc/meminfo", encoding="ascii") as info:
        memory = int(re.search(r"MemTotal:\s*(\d+)", info.read()).group(1)) / (1 << 20)
    system = "Linux"
    try:
        with open("/etc/os-release", encoding="utf8") as release:
            system = re.search(r'PRETTY_NAME="(.*)"', release.read()).group(1)
    except (OSError, AttributeError):
        pass
    return "%d processors (%s)%s, %.0f GiB of memory, %s, kernel %s" % (
        os.cpu_count(), model.group(1).strip() if model else "unknown", ", a virtual machine" if virtual else "", memory,
        system, os.uname().release.split("-")[0])


def versions():
    curl = first_line("curl", "--version").split(" (")[0]
    nginx = subprocess.run(["/usr/sbin/nginx", "-v"], capture_output=True, text=True, check=False).stderr.strip()
    return ", ".join(part for part in (
        curl, first_line("wget2", "--version").replace("GNU ", "").split(" - ")[0],
        first_line("aria2c", "--version").replace(" version", ""), nginx.replace("nginx version: ", "")) if part)


def table(columns, rows):
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines)


def page(bench, run):
    parts = [
        "# Performance",
        "Written by `scripts/bench`%s: every figure of this page comes from one run. What the figures mean, and where the "
        "time goes: [internals/Performance.md](internals/Performance.md)." % (
            "" if not run["quick"] else " with `--quick` (small sizes, one round: a first look, not a result)"),
        "## Goals",
        table(["what", "goal", "measured", ""], [
            [goal.name, goal.goal, goal.measured, "reached" if goal.reached else "**missed**"] for goal in bench.goals]),
        "## How it was measured",
        "- %s.\n- %s. The server is nginx on loopback with one worker; its files lie in memory.\n"
        "- Each tool once in each of %d rounds, in another order each time, after a round that only warms up; medians, and "
        "medians of the ratios within a round. Load average %.1f at the beginning, %.1f at the end; %.0f minutes, %s.\n"
        "- CPU is user and system time of the tool's processes, never of the server. For `ferry` it is the command's (or "
        "the client's) and the daemon's; its journal is on the disk whichever the destination is.\n"
        "- Before a large file as much memory as it takes is touched and freed: on a virtual machine the first touch of a "
        "page is slow, and would be charged to whoever comes first." % (
            machine(), versions(), run["rounds"], *run["load"], run["seconds"] / 60, time.strftime("%Y-%m-%d")),
        "## Figures",
    ]
    for entry in bench.tables:
        parts.append("### " + entry.title)
        parts.append(table(entry.columns, entry.rows))
        if entry.note:
            parts.append(entry.note)
    return "\n\n".join(parts) + "\n"
