"""Generated programs on two servers: each makes a table, writes and reads it, and must get equal answers.

A program that gets different answers is shrunk to the fewest statements that still show the difference.
"""

import random

import cases
import wire
from random_schema import UDT_DEFINITION, Table
from random_statements import Statements

KEYSPACE = "generated"
# Statements per table: enough for writes to meet, few enough to shrink fast.
PROGRAM_STATEMENTS = 80
# Runs that shrinking one program may take; each makes a keyspace and a table anew.
SHRINK_RUNS_MAX = 120
DIFFERENCES_SHOWN_MAX = 10


def run(node, peer, seed, statements):
    """Runs programs until `statements` were compared; returns 1 if any answer differed."""
    compared, differences, errors = 0, 0, 0
    number = 0
    while compared < statements and differences < DIFFERENCES_SHOWN_MAX:
        program = make_program(random.Random(f"{seed}/{number}"))
        ours, theirs = answers(node, program), answers(peer, program)
        compared += len(program)
        errors += sum(lines[-1].startswith("error") for lines in theirs)
        number += 1
        if any(map(differ, ours, theirs)):
            differences += 1
            print(f"FAIL seed {seed}, program {number - 1}")
            show(shrink(node, peer, program, ours, theirs))
        elif number % 10 == 0:
            print(f"{compared} statements compared, {errors} of them refused by both")
    print(f"{compared} statements in {number} programs compared, {errors} refused by the peer, {differences} programs differ")
    return 1 if differences else 0


def make_program(chance):
    table = Table(chance)
    source = Statements(chance, table)
    program = [cases.Statement(UDT_DEFINITION), cases.Statement(table.create())]
    program += [cases.Statement(create) for _, create in table.indexes]
    for _ in range(PROGRAM_STATEMENTS):
        cql, page_size = source.next()
        program.append(cases.Statement(cql, {} if page_size is None else {"page": str(page_size)}))
    program.append(cases.Statement("SELECT * FROM t"))
    return program


def answers(address, program):
    with cases.Session(address, KEYSPACE) as session:
        answered = []
        for statement in program:
            answered.append(session.answer(statement))
            if answered[-1][-1].startswith("broken connection"):
                session.connection = wire.Connection(address)
                session.must(f"USE {KEYSPACE}")
        return answered


def differ(ours, theirs):
    """Where Cassandra itself stumbles over a statement, anything but stumbling as well is right.

    Groups are what it stumbles over most: it refuses its own paging states of groups by partition key, and fails
    to read where it meets a range tombstone in a table with groups.
    """
    stumbles = ("error ServerError", "error ReadFailure", "error ProtocolError: Invalid value for the paging state")
    if theirs[-1].startswith(stumbles):
        return ours[-1].startswith((*stumbles, "broken connection"))
    return ours != theirs


def shrink(node, peer, program, ours, theirs):
    """The smallest program found that still differs, by leaving out ever smaller runs of statements."""
    first = next(at for at, pair in enumerate(zip(ours, theirs)) if differ(*pair))
    program = program[:first + 1]
    runs, size = 0, len(program) // 2
    while size > 0 and runs < SHRINK_RUNS_MAX:
        at = 0
        while at + size < len(program) and runs < SHRINK_RUNS_MAX:
            shorter = program[:at] + program[at + size:]
            runs += 1
            if differ(answers(node, shorter)[-1], answers(peer, shorter)[-1]):
                program = shorter
            else:
                at += size
        size //= 2
    return program, answers(node, program)[-1], answers(peer, program)[-1]


def show(shrunk):
    program, ours, theirs = shrunk
    for statement in program:
        print(f"    {statement.title()};")
    for sign, lines in (("-", theirs), ("+", ours)):
        print("\n".join(f"  {sign} {line}" for line in lines[:20]))
