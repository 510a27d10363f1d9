"""The figures. Each function measures one workload with all its tools in turns, and returns a `Table`."""

import os
import queue
import random
import shutil
import signal
import socket
import subprocess
import threading
import time

import aria2
import measure
from ferry import Client, Daemon, download
from measure import GIB, MIB, Cost, median


class Table:
    def __init__(self, title, columns, note=""):
        self.title, self.columns, self.note = title, columns, note
        self.rows = []  # lists of text

    def add(self, *cells):
        self.rows.append([str(cell) for cell in cells])


class Goal:
    def __init__(self, name, goal, measured, reached):
        self.name, self.goal, self.measured, self.reached = name, goal, measured, reached


class Bench:
    """What all figures share: folders, server, sizes, and the goals that were looked at."""

    def __init__(self, programs, server, sizes, folders, rounds):
        self.programs, self.server, self.sizes, self.folders, self.rounds = programs, server, sizes, folders, rounds
        self.tables, self.goals = [], []
        self.serial = 0

    def fresh(self, place, name):
        """A new folder on the disk or in memory."""
        self.serial += 1
        path = os.path.join(self.folders[place], "%s-%d" % (name, self.serial))
        os.makedirs(path, mode=0o700)
        return path

    def daemon(self, name, place="disk", **options):
        return Daemon(self.programs, self.fresh(place, name), **options)

    def goal(self, name, goal, measured, reached):
        self.goals.append(Goal(name, goal, measured, reached))

    def discard(self, path):
        """Out of the way without the cost of deleting between timed runs."""
        trash = os.path.join(os.path.dirname(path), "trash-%d" % self.serial)
        self.serial += 1
        os.rename(path, trash)
        if os.path.dirname(path) == self.folders["memory"]:
            shutil.rmtree(trash, ignore_errors=True)


def in_turns(rounds, tools, before=None):
    """{name: [Cost]}; each round runs every tool once, in a new order."""
    costs = {name: [] for name in tools}
    names = list(tools)
    for number in range(rounds + 1):
        random.Random(number).shuffle(names)
        for name in names:
            if before:
                before()
            cost = tools[name]()
            if number > 0 or rounds == 0:  # the first round only warms up
                costs[name].append(cost)
    return costs


def paired(costs, name, reference, field):
    """Median of the ratios within each round."""
    return median([getattr(a, field) / getattr(b, field) for a, b in zip(costs[name], costs[reference])])


# MARK: One large file

def ferry_run(daemon, work):
    """The cost of `work` for client and daemon together. `work` returns the client's Cost."""
    measure.reset_peak(daemon.pid)
    before = daemon.cpu()
    client = work()
    rss = daemon.memory()[1]
    return Cost(client.wall, client.cpu + daemon.cpu() - before, rss + client.rss)


def large_file(bench, scheme, place):
    size = bench.sizes["large"]
    url = bench.server.url("large", scheme)
    folder = bench.fresh(place, "large")
    daemon = bench.daemon("home")
    certificate = bench.server.certificate
    client_environment = dict(daemon.environment, SSL_CERT_FILE=certificate)
    serial = [0]

    def target():
        serial[0] += 1
        return os.path.join(folder, "file-%d" % serial[0])

    def checked(path, cost):
        assert os.path.getsize(path) == size, path
        os.unlink(path)
        return cost

    def ferry():
        path = target()
        return checked(path, ferry_run(daemon, lambda: measure.run(
            [os.path.join(bench.programs, "ferry"), "get", url, "-o", path], env=client_environment)))

    def command(*arguments):
        def work():
            path = target()
            return checked(path, measure.run([argument.replace("@", path) for argument in arguments]))
        return work

    version = "--http2" if scheme == "h2" else "--http1.1"
    curl = ["curl", "-sS", version, "--cacert", certificate, url, "-o"]

    def curl_then_sync():
        """What ferry does, too, before it says that the file is there."""
        path = target()
        fetched, synced = measure.run([*curl, path]), measure.run(["sync", path])
        return checked(path, Cost(fetched.wall + synced.wall, fetched.cpu + synced.cpu, fetched.rss))

    tools = {"ferry": ferry, "curl": command(*curl, "@")}
    if place == "disk":
        tools["curl, then sync"] = curl_then_sync
    if scheme != "h2":
        tools["wget2"] = command(
            "wget2", "-q", "--no-config", "--ca-certificate=" + certificate, "--no-http2", "-O", "@", url)
        tools["aria2c"] = command(
            "aria2c", "--no-conf", "-q", "-x1", "--file-allocation=none", "--ca-certificate=" + certificate, "-d", "/",
            "-o", "@", url)
    try:
        costs = in_turns(bench.rounds, tools, before=lambda: measure.warm_pages(size + 64 * MIB))
        state = daemon.status()
    finally:
        daemon.stop()
        shutil.rmtree(folder, ignore_errors=True)
    words = {"http": "HTTP/1.1", "https": "HTTPS", "h2": "HTTP/2 over TLS"}[scheme]
    where = {"memory": "memory (tmpfs)", "disk": "disk"}[place]
    table = Table(
        "One file of %d MiB, %s, to %s" % (size // MIB, words, where),
        ["tool", "wall s", "CPU s/GiB", "RSS MiB", "wall × curl", "CPU × curl"],
        "`ferry` is the command and the daemon together, with journal and sync; %d commits for %d transfers." % (
            state["commits"], bench.rounds + 1))
    for name in tools:
        table.add(
            name, "%.3f" % median([c.wall for c in costs[name]]),
            "%.3f" % (median([c.cpu for c in costs[name]]) * GIB / size),
            "%.1f" % (max(c.rss for c in costs[name]) / MIB), "%.2f" % paired(costs, name, "curl", "wall"),
            "%.2f" % paired(costs, name, "curl", "cpu"))
    bench.tables.append(table)
    cpu, wall = paired(costs, "ferry", "curl", "cpu"), paired(costs, "ferry", "curl", "wall")
    limit = 0.85 if scheme == "http" else 1.0
    name = "%s, to %s" % (words, place)
    bench.goal("CPU of a large file, " + name, "≤ %.2f × curl" % limit, "%.2f" % cpu, cpu <= limit)
    bench.goal("wall time of a large file, " + name, "≤ 1.00 × curl", "%.2f" % wall, wall <= 1.0)
    if scheme == "http":
        half = paired(costs, "ferry", "aria2c", "cpu")
        bench.goal("CPU of a large file, " + name, "≤ 0.50 × aria2c", "%.2f" % half, half <= 0.5)


# MARK: Many small files

def write_list(path, lines):
    with open(path, "w", encoding="ascii") as file:
        file.writelines(lines)


def many_files(bench, count, size, place, scheme="http", writer=False):
    """All tools fetch the same files. `ferry` enqueues in batches, and takes and acknowledges each result."""
    names = ["small/%d/%05d" % (size, index) for index in range(count)]
    urls = [bench.server.url(name, scheme) for name in names]
    daemon = bench.daemon("home")
    certificate = bench.server.certificate
    lists = bench.fresh("memory", "lists")
    sessions = [0]

    def folder():
        return bench.fresh(place, "files")

    def checked(path, cost):
        found = [name for name in os.listdir(path) if not name.startswith(".")]  # the parts go a little later
        assert len(found) == count, "%d of %d files" % (len(found), count)
        bench.discard(path)
        return cost

    def ferry():
        path = folder()
        sessions[0] += 1
        batches = [
            [download(url, os.path.join(path, "f%d" % (start + offset)))
             for offset, url in enumerate(urls[start:start + 2000])] for start in range(0, count, 2000)]
        client = Client(daemon)
        session = client.open("run-%d" % sessions[0], certificate=certificate)
        requests = [client.request("task.enqueue", {"session": session, "tasks": tasks})[1] for tasks in batches]

        def work():
            cpu, began = measure.own_cpu(), time.perf_counter()
            # One thread sends, or requests and acknowledgements would mix.
            outgoing = queue.SimpleQueue()
            for data in requests:
                outgoing.put(data)
            sender = threading.Thread(target=lambda: [client.send(data) for data in iter(outgoing.get, None)])
            sender.start()
            failed = client.collect(session, count, send=outgoing.put)
            wall = time.perf_counter() - began
            outgoing.put(None)
            sender.join()
            assert failed == 0, "%d failed" % failed
            return Cost(wall, measure.own_cpu() - cpu)

        cost = ferry_run(daemon, work)
        client.close()
        return checked(path, cost)

    def curl():
        path = folder()
        configuration = os.path.join(lists, "curl")
        write_list(configuration, (
            'url = "%s"\noutput = "%s/f%d"\n' % (url, path, index) for index, url in enumerate(urls)))
        return checked(path, measure.run(
            ["curl", "-sS", "-Z", "--parallel-max", "6", "--cacert", certificate, "-K", configuration]))

    def aria2c():
        path = folder()
        listed = os.path.join(lists, "aria2")
        write_list(listed, ("%s\n  out=f%d\n" % (url, index) for index, url in enumerate(urls)))
        return checked(path, measure.run(
            ["aria2c", "--no-conf", "-q", "-j5", "--file-allocation=none", "--ca-certificate=" + certificate, "-d", path,
             "-i", listed]))

    def wget2():
        path = folder()
        listed = os.path.join(lists, "wget2")
        write_list(listed, (url + "\n" for url in urls))
        return checked(path, measure.run(
            ["wget2", "-q", "--no-config", "--max-threads=5", "--ca-certificate=" + certificate, "-P", path, "-i", listed]))

    tools = {"ferry": ferry, "curl -Z 6": curl, "wget2": wget2, "aria2c -j5": aria2c}
    stop = threading.Event()
    other = threading.Thread(target=dirty_the_disk, args=(bench.fresh("disk", "other"), stop)) if writer else None
    before = daemon.status()["commits"]
    try:
        if other:
            other.start()
        costs = in_turns(bench.rounds, tools)
        commits = daemon.status()["commits"] - before
    finally:
        stop.set()
        if other:
            other.join()
        daemon.stop()
    where = {"memory": "memory (tmpfs)", "disk": "disk"}[place] + (", beside another writer" if writer else "")
    words = {"http": "HTTP/1.1", "https": "HTTPS", "h2": "HTTP/2 over TLS"}[scheme]
    table = Table(
        "%d files of %d KiB, %s, to %s" % (count, size // 1024, words, where),
        ["tool", "files/s", "CPU µs/file", "RSS MiB", "files/s × curl", "CPU × curl"],
        "`ferry` journals each task, makes each file durable before it offers it, and has every result acknowledged; "
        "CPU is the daemon's and the client's. %.2f commits a file. The others keep and sync nothing." % (
            commits / count / (bench.rounds + 1)))
    for name in tools:
        table.add(
            name, "%d" % (count / median([c.wall for c in costs[name]])),
            "%.0f" % (median([c.cpu for c in costs[name]]) / count * 1e6),
            "%.1f" % (max(c.rss for c in costs[name]) / MIB), "%.2f" % (1 / paired(costs, name, "curl -Z 6", "wall")),
            "%.2f" % paired(costs, name, "curl -Z 6", "cpu"))
    bench.tables.append(table)
    what = "%d × %d KiB to %s" % (count, size // 1024, where)
    rate = 1 / paired(costs, "ferry", "curl -Z 6", "wall")
    bench.goal(what, "≥ 1.0 × files/s of curl -Z", "%.2f" % rate, rate >= 1)
    if place == "disk":
        times = 1 / paired(costs, "ferry", "aria2c -j5", "wall")
        bench.goal(what, "≥ 8 × files/s of aria2c", "%.1f" % times, times >= 8)


def dirty_the_disk(folder, stop):
    """Another program that writes 64 MiB again and again."""
    piece = os.urandom(MIB)
    number = 0
    while not stop.is_set():
        with open(os.path.join(folder, "dirt-%d" % (number % 4)), "wb") as file:
            for _ in range(64):
                file.write(piece)
        number += 1
        stop.wait(0.2)


# MARK: Enqueueing

def enqueue_rates(bench):
    """Every reply comes after its commit. The tasks wait for a date, so that nothing but the enqueueing is measured."""
    count = bench.sizes["enqueue"]
    daemon = bench.daemon("home")
    later = {"earliestBeginMilliseconds": int(time.time() * 1000) + 86_400_000}
    url = bench.server.url("small/4096/00000")
    table = Table(
        "Durable enqueueing, on disk", ["how", "tasks/s", "µs/task", "p50 µs", "p99 µs", "daemon CPU µs/task", "commits/task"],
        "Each reply leaves when its task is on disk (SQLite, synchronous=FULL). aria2's JSON-RPC keeps nothing on disk.")
    rates = {}

    def noted(how, tasks, work):
        commits, cpu = daemon.status()["commits"], daemon.cpu()
        began = time.perf_counter()
        latencies = sorted(work())
        wall = time.perf_counter() - began
        cpu = daemon.cpu() - cpu
        commits = daemon.status()["commits"] - commits
        rates[how] = wall / tasks * 1e6
        p50, p99 = latencies[len(latencies) // 2] * 1e6, latencies[len(latencies) * 99 // 100] * 1e6
        table.add(
            how, "%d" % (tasks / wall), "%.1f" % (wall / tasks * 1e6), "%.0f" % p50, "%.0f" % p99,
            "%.1f" % (cpu / tasks * 1e6), "%.4f" % (commits / tasks))

    def requests(client, session, tasks, size=1):
        """Made before the clock runs: what Python needs to write JSON is no figure of the daemon."""
        return [client.request("task.enqueue", {"session": session, "tasks": [download(url, **later)] * size})[1]
                for _ in range(tasks // size)]

    def answered(client, data, window):
        """Sends requests, at most `window` ahead of their replies; returns the latency of each."""
        sent, latencies, times = 0, [], []
        while len(latencies) < len(data):
            if sent < len(data) and sent - len(latencies) <= window // 2:
                part = data[sent:min(len(data), len(latencies) + window)]
                now = time.perf_counter()
                client.send(b"".join(part))
                times += [now] * len(part)
                sent += len(part)
            client.receive()
            lines = client.buffer.count(b"\n")
            if lines:
                client.buffer = client.buffer[client.buffer.rfind(b"\n") + 1:]
                now = time.perf_counter()
                latencies += [now - times[len(latencies) + index] for index in range(lines)]
        return latencies

    def one_client(how, tasks, size=1, window=1):
        data = requests(client, session, tasks, size)
        noted(how, tasks, lambda: answered(client, data, window))

    def many_clients(tasks, clients=50):
        links = [Client(daemon) for _ in range(clients)]
        sessions = [link.open("many-%d" % index, attach=False) for index, link in enumerate(links)]
        return poll_clients(links, sessions, tasks // clients)

    def poll_clients(links, sessions, each):
        """One request at a time on each connection, all from one thread."""
        import select
        latencies, left, began = [], {}, {}
        poller = select.epoll()
        by_number = {}
        for link, session in zip(links, sessions):
            by_number[link.link.fileno()] = (link, session)
            left[link] = each
            poller.register(link.link.fileno(), select.EPOLLIN)
            began[link] = time.perf_counter()
            link.send(link.request("task.enqueue", {"session": session, "tasks": [download(url, **later)]})[1])
        while len(latencies) < each * len(links):
            for number, _ in poller.poll():
                link, session = by_number[number]
                link.receive()
                if not link.buffer.endswith(b"\n"):
                    continue
                link.buffer.clear()
                latencies.append(time.perf_counter() - began[link])
                left[link] -= 1
                if left[link] > 0:
                    began[link] = time.perf_counter()
                    link.send(link.request("task.enqueue", {"session": session, "tasks": [download(url, **later)]})[1])
        for link in links:
            link.close()
        return latencies

    try:
        client = Client(daemon)
        session = client.open("enqueue", attach=False)
        answered(client, requests(client, session, 200), 1)
        one_client("one by one", count // 5)
        one_client("pipelined", count, window=256)
        one_client("batches of 1000, one by one", count * 2, size=1000)
        one_client("batches of 1000, pipelined", count * 2, size=1000, window=4)
        noted("50 clients, one by one each", count, lambda: many_clients(count))
        answered(client, requests(client, session, bench.sizes["long_queue"], 1000), 2)
        long = daemon.status()["tasks"]["waiting"]
        one_client("one by one, %d waiting" % long, count // 5)
        one_client("batches of 1000, pipelined, %d waiting" % long, count * 2, size=1000, window=4)
        client.close()
    finally:
        daemon.stop()
    for how, tasks, wall, latencies in aria2.enqueue_rates(bench.fresh("memory", "aria2"), url, count):
        latencies.sort()
        rates["aria2 " + how] = wall / tasks * 1e6
        table.add(
            "aria2c JSON-RPC, " + how, "%d" % (tasks / wall), "%.1f" % (wall / tasks * 1e6),
            "%.0f" % (latencies[len(latencies) // 2] * 1e6), "%.0f" % (latencies[len(latencies) * 99 // 100] * 1e6), "", "")
    bench.tables.append(table)
    bench.goal("enqueue one by one", "≤ 1.0 × aria2c (%.0f µs)" % rates["aria2 one by one"],
               "%.0f µs" % rates["one by one"], rates["one by one"] <= rates["aria2 one by one"])
    bench.goal("enqueue pipelined", "≥ 15,000/s", "%d/s" % (1e6 / rates["pipelined"]), rates["pipelined"] <= 1e6 / 15000)
    batches = rates["batches of 1000, pipelined"]
    bench.goal("enqueue in batches, the next sent while one is stored", "≥ 50,000/s", "%d/s" % (1e6 / batches), batches <= 20)
    growth = rates["one by one, %d waiting" % long] / rates["one by one"]
    bench.goal("enqueue with %d waiting" % long, "flat", "%.2f × with a short queue" % growth, growth <= 1.3)


# MARK: Many waiting tasks

def waiting_tasks(bench, count):
    daemon = bench.daemon("home")
    url = bench.server.url("small/4096/00000")
    table = Table("%d waiting tasks" % count, ["what", "figure"])
    try:
        client = Client(daemon)
        session = client.open("waiting", attach=False)
        # To a server that answers no one: none may run, and each start would probe it again.
        blocked = {"earliestBeginMilliseconds": int(time.time() * 1000) + 86_400_000}
        batch = [download(url, **blocked)] * 2000
        began = time.perf_counter()
        for start in range(0, count, 2000):
            client.enqueue(session, batch)
        table.add("enqueueing them", "%.1f s (%d/s)" % (
            time.perf_counter() - began, count / (time.perf_counter() - began)))
        client.close()
        before = daemon.memory()
        table.add("memory after enqueueing", "%.1f MiB, at most %.1f MiB" % (before[0] / MIB, before[1] / MIB))
        time.sleep(3)  # a daemon at rest gives back what the batches needed
        before = daemon.memory()
        table.add("memory at rest", "%.1f MiB" % (before[0] / MIB))
        home = daemon.home
        turns_while_enqueueing = daemon.status()["turnMicroseconds"]
        daemon.stop()
        daemon = Daemon(bench.programs, home)
        table.add("start until it answers", "%.3f s" % daemon.ready_after)
        rss = daemon.memory()
        table.add("memory after a start", "%.1f MiB, at most %.1f MiB" % (rss[0] / MIB, rss[1] / MIB))
        client = Client(daemon)
        session = client.open("waiting", attach=False)
        began = time.perf_counter()
        number = client.enqueue(session, [download(url, priority=1.0)])[0]
        while client.call("task.show", {"id": number})["task"]["state"] not in ("succeeded", "failed"):
            pass
        table.add("one more task: enqueued, fetched, finished", "%.1f ms" % ((time.perf_counter() - began) * 1e3))
        client.close()
        # Now with all of them due: time from start to the first byte, and what the loop's turns cost while all run.
        daemon.stop()
        subprocess.run(
            ["sqlite3", os.path.join(home, "ferry.sqlite"), "UPDATE task SET not_before_ms = NULL WHERE state='waiting'"],
            check=True)
        hits = bench.server.url("steady/large")
        subprocess.run(
            ["sqlite3", os.path.join(home, "ferry.sqlite"), "UPDATE task_plan SET url = '%s'" % hits], check=True)
        daemon = Daemon(bench.programs, home)
        client = Client(daemon)
        while True:
            state = client.call("task.list", {"limit": 8, "isUnfinishedOnly": True})["tasks"]
            if any(task["received"] > 0 for task in state):
                break
            time.sleep(0.002)
        first = time.perf_counter() - daemon.began
        table.add("start to the first byte, all due", "%.3f s" % first)
        status = client.call("daemon.status", {})
        rss_due = daemon.memory()
        table.add("memory with all due", "%.1f MiB" % (rss_due[0] / MIB))
        turns = status["turnMicroseconds"]
        worst = max(int(bound) for bound in list(turns) + list(turns_while_enqueueing))
        table.add("longest turn of the loop", "≤ %.1f ms" % (worst / 1e3))
        client.close()
    finally:
        daemon.stop()
    shutil.rmtree(home, ignore_errors=True)
    bench.tables.append(table)
    limit = 60 if count <= 100_000 else 400
    resident = max(rss[0], rss_due[0], before[0])
    bench.goal("memory, %d waiting" % count, "≤ %d MB" % limit, "%.0f MB" % (resident / 1e6), resident <= limit * 1e6)
    if count <= 100_000:
        bench.goal("start to first byte, %d waiting" % count, "≤ 0.5 s", "%.2f s" % first, first <= 0.5)
    bench.goal("longest turn, %d waiting" % count, "≤ 100 ms (bound of its bucket)", "≤ %.0f ms" % (worst / 1e3), worst <= 65_536)


# MARK: Idle, starting

def idle(bench):
    seconds = bench.sizes["idle_seconds"]
    table = Table("Idle, and starting", ["what", "figure"])
    daemon = bench.daemon("home")
    try:
        # Busy once, so that what is kept from work is counted too.
        client = Client(daemon)
        session = client.open("idle")
        fresh_rss = daemon.memory()[0]
        client.enqueue(session, [download(bench.server.url("small/4096/%05d" % index)) for index in range(100)])
        client.collect(session, 100)
        client.close()
        time.sleep(35 if seconds > 25 else 2)  # idle connections are dropped after 30 s
        before, cpu = measure.switches(daemon.pid), daemon.cpu()
        time.sleep(seconds)
        wakeups = measure.switches(daemon.pid) - before
        cpu = daemon.cpu() - cpu
        rss = daemon.memory()[0]
    finally:
        daemon.stop()
    table.add("context switches in %d idle seconds" % seconds, wakeups)
    table.add("CPU in that time", "%.1f ms" % (cpu * 1e3))
    table.add("resident memory, just started", "%.1f MiB" % (fresh_rss / MIB))
    table.add("resident memory after 100 transfers", "%.1f MiB" % (rss / MIB))

    def start(*command):
        return lambda: measure.run(list(command))
    ferry = os.path.join(bench.programs, "ferry")
    costs = in_turns(bench.sizes["starts"], {
        "ferry --version": start(ferry, "--version"), "curl --version": start("curl", "--version"),
        "aria2c --version": start("aria2c", "--version"), "true": start("/bin/true")})
    for name, values in costs.items():
        table.add(name, "%.2f ms, %.2f ms of CPU, %.1f MiB" % (
            median([c.wall for c in values]) * 1e3, median([c.cpu for c in values]) * 1e3,
            max(c.rss for c in values) / MIB))
    bench.tables.append(table)
    bench.goal("idle wake-ups in %d s" % seconds, "0", str(wakeups), wakeups == 0)
    bench.goal("idle memory", "≤ 20 MB", "%.1f MB" % (rss / 1e6), rss <= 20e6)
    ours, curls = (median([c.cpu for c in costs[name]]) for name in ("ferry --version", "curl --version"))
    bench.goal("ferry --version", "< curl --version (%.1f ms CPU)" % (curls * 1e3), "%.1f ms" % (ours * 1e3), ours < curls)


# MARK: After kill -9

def killed(bench):
    """From SIGKILL of the daemon to its next daemon receiving bytes again, with 100 tasks of which as many run as may."""
    daemon = bench.daemon("home", supervised=True)
    times = []
    wanted = bench.sizes["kills"]
    pid = daemon.pid
    try:
        client = Client(daemon)
        # Several sessions, for one has six connections to a host: as many run as the daemon runs at once.
        for number in range(10):
            session = client.open("kill-%d" % number, attach=False, connections=10)
            client.enqueue(session, [download(bench.server.url("steady/large")) for _ in range(10)])
        for _ in range(wanted):
            wait_for_bytes(daemon)
            began = time.perf_counter()
            os.kill(pid, signal.SIGKILL)
            pid = wait_for_bytes(daemon, other_than=pid)
            times.append(time.perf_counter() - began)
    finally:
        daemon.stop()
    table = Table(
        "From kill -9 to bytes moving again, 100 tasks", ["kills", "median ms", "worst ms"],
        "The supervising parent starts the daemon again; the time ends when the first task reports new bytes.")
    table.add(len(times), "%.0f" % (median(times) * 1e3), "%.0f" % (max(times) * 1e3))
    bench.tables.append(table)
    bench.goal("kill -9 to bytes moving", "median < 150 ms", "%.0f ms" % (median(times) * 1e3), median(times) < 0.150)


def wait_for_bytes(daemon, other_than=None):
    """Until a daemon with another process id has a task whose counter grew; returns the id."""
    end = time.monotonic() + 30
    client, held = None, {}
    while time.monotonic() < end:
        try:
            if client is None:
                client = Client(daemon)
            if client.pid == other_than:
                raise EOFError
            running = client.call("task.list", {"limit": 100})["tasks"]
            for task in running:
                if task["state"] == "running" and task["received"] > held.get(task["id"], task["received"]):
                    client.close()
                    return client.pid
                if task["state"] == "running":
                    held.setdefault(task["id"], task["received"])
        except (OSError, EOFError):
            if client:
                client.close()
            client = None
        time.sleep(0.001)
    raise RuntimeError("no bytes within 30 s")


# MARK: The loop under load

def loop_latency(bench, slow=False):
    """64 running transfers, 1,000 more connections that say nothing, and 50 clients that enqueue and ask at once. `slow`:
    beside them names that the resolver does not answer, and each sync of the daemon's disk takes a second."""
    environment = {}
    if slow:
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "slow.c")
        library = os.path.join(bench.fresh("memory", "slow"), "slow.so")
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
        environment = {"LD_PRELOAD": library, "BENCH_SLOW_FOLDER": bench.folders["disk"]}
    daemon = bench.daemon("home", environment=environment)
    url = bench.server.url("steady/large")
    later = {"earliestBeginMilliseconds": int(time.time() * 1000) + 86_400_000}
    quiet = []
    try:
        client = Client(daemon)
        for number in range(11):
            session = client.open("load-%d" % number, attach=False)
            client.enqueue(session, [download(url) for _ in range(6)])
        if slow:
            session = client.open("hanging", attach=False, connections=64)
            client.enqueue(session, [download("http://name-%d.slow.invalid/" % number) for number in range(100)])
        for _ in range(1000):
            link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            link.connect(daemon.socket_path())
            quiet.append(link)
        if not slow:
            wait_for_bytes(daemon)
        before = client.call("daemon.status", {})["turnMicroseconds"]
        links = [Client(daemon) for _ in range(50)]
        sessions = [link.open("client-%d" % index, attach=False) for index, link in enumerate(links)]
        end = time.monotonic() + bench.sizes["load_seconds"]
        asked = 0
        while time.monotonic() < end:
            for index, link in enumerate(links):
                link.send(link.request(
                    "task.enqueue", {"session": sessions[index], "tasks": [download(bench.server.url("large"), **later)] * 20})[1]
                    + link.request("task.list", {"limit": 100})[1])
            for link in links:
                while link.buffer.count(b"\n") < 2:
                    link.receive()
                link.buffer.clear()
                asked += 2
        after = client.call("daemon.status", {})["turnMicroseconds"]
        for link in links:
            link.close()
        client.close()
    finally:
        for link in quiet:
            link.close()
        daemon.stop()
    counts = {int(bound): after[bound] - before.get(bound, 0) for bound in after}
    total = sum(counts.values())
    beside = ", a hanging resolver, a disk that syncs in a second" if slow else ""
    table = Table(
        "Turns of the loop: 64 transfers, 1,000 silent connections, 50 busy clients" + beside, ["took at most µs", "turns", "share %"],
        "%d requests were answered meanwhile." % asked)
    for bound in sorted(counts):
        if counts[bound]:
            table.add(bound, counts[bound], "%.2f" % (100 * counts[bound] / total))
    bench.tables.append(table)
    worst = max(bound for bound in counts if counts[bound])
    bench.goal("longest turn under load" + beside, "≤ 100 ms (bound of its bucket)", "≤ %.1f ms" % (worst / 1e3), worst <= 65_536)


# MARK: Collecting results

def client_program(name):
    """A program of the package `Benchmarks`; it may not have been built."""
    built = os.environ.get(
        "FERRY_BENCH_CLIENTS", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".build", "release"))
    return os.path.join(built, name)


def collecting(bench):
    """Results that wait, collected by a fresh client: the raw protocol, and FerryClient where it was built."""
    count = bench.sizes["results"]
    table = Table(
        "%d results collected by a fresh client" % count, ["client", "deliveries/s", "wall s", "daemon CPU µs each", "client CPU µs each"],
        "A window of 256 is offered ahead of the acknowledgements; each acknowledgement is durable before its reply.")
    rates = {}
    clients = {"protocol, in Python": None}
    for name, *command in (("FerryClient", "collect", "bench", "results"), ("delegate queue", "delegate", "results")):
        program = client_program(command[0])
        if os.path.exists(program):
            clients[name] = [program, *command[1:], str(count)]
    for name, program in clients.items():
        daemon = bench.daemon("home")
        try:
            client = Client(daemon)
            session = client.open("results", attach=False)
            tasks = [download(bench.server.url("small/4096/%05d" % (index % 1000))) for index in range(count)]
            for start in range(0, count, 2000):
                client.enqueue(session, tasks[start:start + 2000])
            while client.call("daemon.status", {})["tasks"].get("succeeded", 0) < count:
                time.sleep(0.02)
            cpu, began = daemon.cpu(), time.perf_counter()
            if program is None:
                own = measure.own_cpu()
                client.open("results")
                client.collect(session, count)
                cost = Cost(time.perf_counter() - began, measure.own_cpu() - own)
            else:
                client.close()
                cost = measure.run(program, env=dict(daemon.environment, FERRY_APP_ID="bench"))
            cpu = daemon.cpu() - cpu
            client.close()
        finally:
            daemon.stop()
        # A managed download brings two deliveries: its file and its completion.
        deliveries = 2 * count
        rates[name] = deliveries / cost.wall
        table.add(name, "%d" % rates[name], "%.2f" % cost.wall, "%.1f" % (cpu / deliveries * 1e6),
                  "%.1f" % (cost.cpu / deliveries * 1e6))
    bench.tables.append(table)
    rates.pop("delegate queue", None)  # is reported, without a goal
    for name, rate in rates.items():
        bench.goal("collecting results, " + name, "≥ 20,000 deliveries/s", "%d/s" % rate, rate >= 20_000)


# MARK: Ordinary sessions

def ordinary_sessions(bench):
    """One program, once with this project's URLSession and once with FoundationNetworking's: one large download, and
    many small requests at once."""
    program = client_program("sessions")
    if not os.path.exists(program):
        return
    small, size = bench.sizes["session_count"], bench.sizes["large"]
    works = (
        ("one download of %d MiB" % (size // MIB), "download", [bench.server.url("large")]),
        ("%d data tasks of 4 KiB" % small, "data", [bench.server.url("small/4096/%05d" % (n % 1000)) for n in range(small)]))
    table = Table(
        "Ordinary sessions, in the program's own process",
        ["work", "URLSession of", "wall s", "CPU s", "RSS MiB", "wall × ours", "CPU × ours"],
        "Completion handlers, one ephemeral session, files to memory (tmpfs); the same source for both.")
    lists = bench.fresh("memory", "lists")
    environment = dict(os.environ, TMPDIR=lists)
    for work, kind, urls in works:
        path = os.path.join(lists, kind)
        write_list(path, [url + "\n" for url in urls])
        costs = in_turns(bench.rounds, {
            name: lambda library=library: measure.run([program, library, kind, path], env=environment)
            for name, library in (("Ferry", "ferry"), ("FoundationNetworking", "foundation"))},
            before=(lambda: measure.warm_pages(size + 64 * MIB)) if kind == "download" else None)
        for name in costs:
            table.add(
                work, name, "%.3f" % median([c.wall for c in costs[name]]), "%.3f" % median([c.cpu for c in costs[name]]),
                "%.1f" % (max(c.rss for c in costs[name]) / MIB), "%.2f" % paired(costs, name, "Ferry", "wall"),
                "%.2f" % paired(costs, name, "Ferry", "cpu"))
        wall, cpu = (paired(costs, "FoundationNetworking", "Ferry", field) for field in ("wall", "cpu"))
        bench.goal("CPU of FoundationNetworking, " + work, "≥ 5 × ours", "%.1f" % cpu, cpu >= 5)
        bench.goal("wall time of FoundationNetworking, " + work, "≥ 3 × ours", "%.1f" % wall, wall >= 3)
    bench.tables.append(table)
