"""What both vector stores are tested with: texts, an embedding that needs no model, and the answers that must come.

Every answer goes to the log, too, so that those of two servers can be compared: run the programs against each, and `diff`.
"""

import json
import os
import re
import sys
import time
import traceback
import zlib

import numpy
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.policies import RoundRobinPolicy

DIMENSIONS = 64
# How long a driver may take to find a restarted node again, and an expired row to be gone.
WAIT_SECONDS_MAX = 60

# As in LangChain's own example: what philosophers said, by whom, and what about.
QUOTES = [
    ("aristotle", ["knowledge", "education"], "The roots of education are bitter, but the fruit is sweet."),
    ("aristotle", ["ethics"], "Excellence is an art won by training and habituation."),
    ("aristotle", ["knowledge"], "All men by nature desire to know."),
    ("aristotle", [], "Hope is a waking dream."),
    ("plato", ["education", "love"], "At the touch of love everyone becomes a poet."),
    ("plato", ["knowledge"], "Science is nothing but perception."),
    ("plato", ["politics", "ethics"], "The price good men pay for indifference to public affairs is to be ruled by evil men."),
    ("plato", ["ethics"], "The measure of a man is what he does with power."),
    ("seneca", ["ethics"], "It is not the man who has too little, but the man who craves more, that is poor."),
    ("seneca", ["knowledge", "ethics"], "As long as you live, keep learning how to live."),
    ("seneca", [], "Every new beginning comes from some other beginning's end."),
    ("spinoza", ["knowledge", "ethics"], "The highest activity a human being can attain is learning for understanding."),
    ("spinoza", ["politics"], "Peace is not an absence of war, it is a virtue, a state of mind."),
    ("nietzsche", ["love"], "There is always some madness in love, but there is also always some reason in madness."),
    ("nietzsche", ["ethics"], "He who has a why to live can bear almost any how."),
    ("nietzsche", [], "Without music, life would be a mistake."),
    ("kant", ["knowledge"], "Science is organized knowledge, wisdom is organized life."),
    ("kant", ["ethics"], "Act as if what you do were to become a law for all men."),
    ("hegel", ["history", "knowledge"], "We learn from history that we do not learn from history."),
    ("hegel", [], "Nothing great in the world has ever been accomplished without passion."),
]


def embed(text):
    """Words make directions, so that texts which share words are alike; the same in every process."""
    vector = numpy.zeros(DIMENSIONS)
    for word in re.findall(r"\w+", text.lower()):
        bits = zlib.crc32(word.encode())
        for _ in range(4):
            vector[bits % DIMENSIONS] += 1.0 if bits & 0x80 else -1.0
            bits = zlib.crc32(bits.to_bytes(4, "big"))
    # No text is the zero vector, and hardly two are equally near.
    noise = numpy.random.default_rng(zlib.crc32(text.encode())).standard_normal(DIMENSIONS)
    vector += 0.01 * noise
    return (vector / numpy.linalg.norm(vector)).astype(numpy.float32).astype(float).tolist()


def similarity(one, other):
    one, other = numpy.array(one), numpy.array(other)
    return float(one @ other / numpy.linalg.norm(one) / numpy.linalg.norm(other))


def nearest(query, rows, count):
    """The names of the `count` of `rows` (name to text) that are most like `query`, the likest first: every one is looked at."""
    target = embed(query)
    return sorted(rows, key=lambda name: -similarity(target, embed(rows[name])))[:count]


def equal(actual, expected):
    record(actual)
    assert actual == expected, f"{actual!r} instead of {expected!r}"


def close(actual, expected):
    assert len(actual) == len(expected), f"{actual!r} instead of {expected!r}"
    assert all(abs(one - other) < 1e-5 for one, other in zip(actual, expected)), f"{actual!r} instead of {expected!r}"


def record(answer):
    print("ANSWER", json.dumps(answer), file=sys.stderr, flush=True)


def expect_error(kind, action, *words):
    try:
        action()
    except kind as error:
        for word in words:
            assert word in str(error), f"{word!r} is not in {error}"
        return
    raise AssertionError(f"no {kind.__name__}")


def wait_until(condition):
    deadline = time.time() + WAIT_SECONDS_MAX
    while time.time() < deadline:
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError(f"not within {WAIT_SECONDS_MAX} s")


def restart(session):
    """Restarts the node, or says that it is somebody else's."""
    print("restart", flush=True)
    if sys.stdin.readline().strip() != "restarted":
        return False

    def answers():
        try:
            session.execute("SELECT key FROM system.local")
            return True
        except Exception:
            return False

    wait_until(answers)
    return True


def run(keyspace, tests):
    profile = ExecutionProfile(load_balancing_policy=RoundRobinPolicy(), request_timeout=60)
    cluster = Cluster([os.environ["CQL_HOST"]], port=int(os.environ["CQL_PORT"]), connect_timeout=30,
                      execution_profiles={EXEC_PROFILE_DEFAULT: profile})
    session = cluster.connect()
    session.execute(f"DROP KEYSPACE IF EXISTS {keyspace}")
    session.execute(f"CREATE KEYSPACE {keyspace} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}")
    failed = False
    for test in tests:
        name = test.__name__.removeprefix("test_")
        print("TEST", name, file=sys.stderr, flush=True)
        try:
            test(session)
            print(f"ok {name}", flush=True)
        except Exception as error:
            traceback.print_exc()
            print(f"FAIL {name}: {type(error).__name__}: {error}", flush=True)
            failed = True
    session.execute(f"DROP KEYSPACE {keyspace}")
    cluster.shutdown()
    sys.exit(1 if failed else 0)
