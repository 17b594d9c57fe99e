"""Compares a node's answers with Apache Cassandra's: recorded ones, or those of a running peer.

    differential.py --peer HOST:PORT record [FILE...]          write the answers files
    differential.py --node HOST:PORT replay [FILE...]          compare with the answers files
    differential.py --node HOST:PORT --peer HOST:PORT compare FILE...
    differential.py --node HOST:PORT --peer HOST:PORT generate --seed N --statements N
    differential.py --node HOST:PORT show FILE...              print a node's answers
"""

import argparse
import difflib
import pathlib
import sys

import cases
import generate
import wire

# Differences shown in full per file; the others are counted.
SHOWN_MAX = 5


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--node", metavar="HOST:PORT")
    parser.add_argument("--peer", metavar="HOST:PORT")
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("record", "replay", "compare", "show"):
        commands.add_parser(name).add_argument("files", nargs="*", type=pathlib.Path)
    generated = commands.add_parser("generate")
    generated.add_argument("--seed", type=int, default=1)
    generated.add_argument("--statements", type=int, default=1000)
    arguments = parser.parse_args()
    if arguments.command == "generate":
        sys.exit(generate.run(arguments.node, arguments.peer, arguments.seed, arguments.statements))
    files = arguments.files or sorted(cases.FOLDER.glob("*.cql"))
    failed = sum(COMMANDS[arguments.command](arguments, path) for path in files)
    sys.exit(1 if failed else 0)


def record(arguments, path):
    answered = answers_of(arguments.peer, path)
    cases.save_answers(path.with_suffix(".answers"), [(s.title(), lines) for s, lines in answered])
    broken = [s for s, lines in answered if lines[-1].startswith("broken connection")]
    for statement in broken:
        print(f"{path.name}:{statement.line}: the connection broke: {statement.title()}")
    print(f"{path.stem}: {len(answered)} answers recorded")
    return len(broken)


def replay(arguments, path):
    recorded = cases.load_answers(path.with_suffix(".answers"))
    statements = cases.load(path)
    if [title for title, _ in recorded] != [statement.title() for statement in statements]:
        print(f"FAIL {path.stem}: the answers are not those of these statements; record them again")
        return 1
    expected = [lines for _, lines in recorded]
    return report(path, answers_of(arguments.node, path), expected)


def compare(arguments, path):
    expected = [lines for _, lines in answers_of(arguments.peer, path)]
    return report(path, answers_of(arguments.node, path), expected)


def show(arguments, path):
    for statement, lines in answers_of(arguments.node, path):
        print("\n".join([f"> {statement.title()}", *lines, ""]))
    return 0


def answers_of(address, path):
    """Each statement with the lines of its answer; after a break the rest goes on anew."""
    statements, answered = cases.load(path), []
    with cases.Session(address, path.stem) as session:
        for statement in statements:
            lines = session.answer(statement)
            answered.append((statement, lines))
            if lines[-1].startswith("broken connection"):
                session.connection = wire.Connection(address)
                session.must(f"USE {path.stem}")
    return answered


def report(path, answered, expected):
    failed = 0
    for (statement, actual), wanted in zip(answered, expected):
        name = f"{path.stem}:{statement.line}"
        if actual == wanted:
            print(f"ok {name}")
            continue
        failed += 1
        if failed <= SHOWN_MAX:
            print(f"FAIL {name}: {statement.title()}")
            print("\n".join(difference(wanted, actual)))
        else:
            print(f"FAIL {name}: {statement.title()[:100]}")
    return failed


def difference(wanted, actual):
    """The lines that differ, the peer's marked with - and the node's with +."""
    lines = difflib.unified_diff(wanted, actual, lineterm="", n=0)
    return [line for line in lines if not line.startswith(("---", "+++", "@@"))][:20]


COMMANDS = {"record": record, "replay": replay, "compare": compare, "show": show}

if __name__ == "__main__":
    main()
