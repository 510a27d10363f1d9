"""aria2c as a daemon over JSON-RPC, beside our enqueueing."""

import http.client
import json
import subprocess
import time

from server import free_ports


def enqueue_rates(folder, url, count):
    """Yields (how, tasks, wall seconds, latencies) for a daemon whose tasks are all paused."""
    port = free_ports(1)[0]
    process = subprocess.Popen(
        ["aria2c", "--no-conf", "-q", "--enable-rpc", "--rpc-listen-port=%d" % port, "--rpc-max-request-size=64M",
         "--file-allocation=none", "--pause", "-d", folder],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        link = http.client.HTTPConnection("127.0.0.1", port)

        def call(method, *params):
            body = json.dumps({"jsonrpc": "2.0", "id": "1", "method": method, "params": params})
            link.request("POST", "/jsonrpc", body, {"Content-Type": "application/json"})
            return json.loads(link.getresponse().read())

        for _ in range(200):
            try:
                call("aria2.getVersion")
                break
            except OSError:
                link.close()
                time.sleep(0.02)

        def one_by_one(tasks):
            latencies, start = [], time.perf_counter()
            for _ in range(tasks):
                began = time.perf_counter()
                call("aria2.addUri", [url])
                latencies.append(time.perf_counter() - began)
            return tasks, time.perf_counter() - start, latencies

        yield ("one by one", *one_by_one(200))
        size, calls = 1000, max(1, count * 2 // 1000)
        latencies, start = [], time.perf_counter()
        for _ in range(calls):
            began = time.perf_counter()
            call("system.multicall", [{"methodName": "aria2.addUri", "params": [[url]]}] * size)
            latencies.append(time.perf_counter() - began)
        yield "multicall of 1000", size * calls, time.perf_counter() - start, latencies
        yield ("one by one, %d paused" % (size * calls), *one_by_one(200))
    finally:
        process.kill()
        process.wait()
