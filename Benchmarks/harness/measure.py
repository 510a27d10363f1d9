"""Running programs and counting what they cost: wall time, CPU time, memory, system calls."""

import os
import re
import resource
import shutil
import signal
import statistics
import subprocess
import tempfile
import threading
import time

GIB = 1 << 30
MIB = 1 << 20


class Cost:
    """What one timed run cost. `cpu` in seconds covers all processes that belong to the tool, not the server."""

    def __init__(self, wall, cpu, rss=0):
        self.wall = wall
        self.cpu = cpu
        self.rss = rss  # bytes, the largest


def cpu_clock(pid):
    """CPU seconds that a process has used, its ended threads included (clock_getcpuclockid(3))."""
    return time.clock_gettime((~pid << 3) | 2)


def memory(pid):
    """VmRSS and VmHWM of a process in bytes."""
    found = {}
    with open("/proc/%d/status" % pid, encoding="ascii", errors="replace") as status:
        for line in status:
            if line.startswith(("VmRSS:", "VmHWM:")):
                found[line[:5]] = int(line.split()[1]) * 1024
    return found.get("VmRSS", 0), found.get("VmHWM", 0)


def reset_peak(pid):
    """Starts VmHWM anew (proc_pid_clear_refs(5))."""
    try:
        with open("/proc/%d/clear_refs" % pid, "w", encoding="ascii") as file:
            file.write("5")
    except OSError:
        pass


def switches(pid):
    """Context switches of all threads: an idle process makes none."""
    total = 0
    for thread in os.listdir("/proc/%d/task" % pid):
        with open("/proc/%d/task/%s/status" % (pid, thread), encoding="ascii", errors="replace") as status:
            total += sum(int(line.split()[1]) for line in status if "ctxt_switches" in line)
    return total


def sample_peak(pid, end, peak):
    """Keeps the last VmHWM of a process. (ru_maxrss begins at the size of the process that forked: ours.)"""
    while not end.wait(0.02):
        try:
            peak[0] = max(peak[0], memory(pid)[1])
        except OSError:
            return


def run(command, cwd=None, env=None, ok=(0,)):
    """Runs a command to its end; CPU by wait4(2), memory by sampling."""
    began = time.perf_counter()
    process = subprocess.Popen(
        command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    end, peak = threading.Event(), [0]
    sampler = threading.Thread(target=sample_peak, args=(process.pid, end, peak))
    sampler.start()
    try:
        error = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
    except BaseException:
        process.kill()
        process.wait()
        raise
    finally:
        end.set()
        sampler.join()
        process.stderr.close()
    wall = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in ok:
        raise RuntimeError("%s ended with %d: %s" % (command[0], process.returncode, error[-500:].decode("utf8", "replace")))
    return Cost(wall, usage.ru_utime + usage.ru_stime, peak[0])


def own_cpu():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def median(values):
    return statistics.median(values) if values else 0.0


def warm_pages(size):
    """Touches and frees so much memory: on a virtual machine the first touch of a page that the host took back is slow,
    and would be charged to whoever writes first."""
    import mmap
    with mmap.mmap(-1, size) as region:
        for offset in range(0, size, 4096):
            region[offset] = 1


class Strace:
    """Counts system calls of a running process and all its threads."""

    def __init__(self, pid):
        self.output = tempfile.NamedTemporaryFile(prefix="bench-strace-", delete=False)
        self.process = subprocess.Popen(
            ["strace", "-f", "-c", "-S", "calls", "-o", self.output.name, "-p", str(pid)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        # It says "Process N attached" when it counts.
        line = self.process.stderr.readline().decode()
        if "attached" not in line:
            self.process.kill()
            raise RuntimeError("strace cannot attach: %s" % line)

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        self.process.stderr.read()
        self.process.stderr.close()
        self.process.wait()
        counts = {}
        with open(self.output.name, encoding="ascii", errors="replace") as table:
            for line in table:
                # % time, seconds, usecs/call, calls, [errors], syscall
                found = re.match(r"\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?(\w+)$", line)
                if found and found.group(2) != "total":
                    counts[found.group(2)] = int(found.group(1))
        os.unlink(self.output.name)
        return counts


def has_program(name):
    return shutil.which(name) is not None
