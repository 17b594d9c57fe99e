"""Adds to counters at a rate until its input ends, through DataStax' driver as it comes, and then says how often it was told that it
was done: ledger.py ADDRESS RATE WORKERS FIRST_ID"""

import json
import sys
import threading
import time

from cassandra.cluster import Cluster


def main():
    host, port = sys.argv[1].rsplit(":", 1)
    rate, workers, first = (int(argument) for argument in sys.argv[2:5])
    session = Cluster([host], port=int(port)).connect()
    add = session.prepare("UPDATE ledger.counts SET count = count + 1 WHERE id = ?")
    ended = threading.Event()
    acknowledged = [0] * workers
    errors = {}
    latencies = []
    interval = workers / rate
    begun = time.monotonic()

    def work(worker):
        due = begun + interval * worker / workers
        while not ended.wait(max(0, due - time.monotonic())):
            sent = time.monotonic()
            try:
                session.execute(add, [first + worker])
                acknowledged[worker] += 1
            except Exception as error:  # whatever the driver says
                text = f"{type(error).__name__}: {error}"
                errors[text] = errors.get(text, 0) + 1
            latencies.append(time.monotonic() - sent)
            due = max(due + interval, time.monotonic())

    threads = [threading.Thread(target=work, args=[worker]) for worker in range(workers)]
    for thread in threads:
        thread.start()
    print("ready", flush=True)
    sys.stdin.read()
    ended.set()
    for thread in threads:
        thread.join()
    latencies.sort()
    print(json.dumps({
        "client": "python",
        "acknowledged": acknowledged,
        "errors": errors,
        "p99_us": int(latencies[len(latencies) * 99 // 100] * 1e6),
        "max_us": int(latencies[-1] * 1e6),
    }), flush=True)


main()
