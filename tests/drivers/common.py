"""Runs every form of a driver directly and through untwin, and compares; knows no driver.

A form is a function that inserts rows in one transaction. Its entry in FORMS names the carrier of its keys.
UNTWIN_DRIVER_CARRIERS, a list with commas, limits a run to some carriers.
"""

import os
import subprocess
import sys
import traceback
import uuid

HOST = "127.0.0.1"
DATABASE = os.environ["UNTWIN_DRIVER_DATABASE"]
DIRECT, THROUGH = int(os.environ["UNTWIN_DRIVER_DIRECT"]), int(os.environ["UNTWIN_DRIVER_THROUGH"])
CARRIERS = os.environ.get("UNTWIN_DRIVER_CARRIERS", "").split(",")

A, B, C = (uuid.UUID(f"{digit * 8}-1111-4111-8111-111111111111") for digit in "abc")
REF = uuid.UUID("99999999-9999-4999-8999-999999999999")
TWINS = [(A, 0, "one", REF), (B, 1, "it's two", REF), (A, 2, "thr\\ee", REF), (C, 3, "four, é", None)]
DISTINCT = [(A, 0, "one", REF), (B, 1, "it's two", REF), (uuid.UUID(int=A.int + 1), 2, "thr\\ee", REF), (C, 3, "four, é", None)]
COLUMNS = ("id", "n", "note", "ref")


def psql(sql):
    """Runs SQL past untwin; returns its rows."""
    command = ["psql", "-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-h", HOST, "-p", str(DIRECT), "-U", "postgres", "-d", DATABASE, "-c", sql]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout.splitlines()


def dsn(port):
    return f"host={HOST} port={port} user=postgres dbname={DATABASE}"


def url(port, scheme):
    return f"{scheme}://postgres@{HOST}:{port}/{DATABASE}"


def is_twin_error(error):
    """Whether an exception or what caused it carries SQLSTATE 23505."""
    while error is not None:
        state = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
        if state == "23505" or is_twin_error(getattr(error, "orig", None)):
            return True
        error = error.__cause__ or error.__context__
    return False


def stored(table):
    return [tuple(row.split("|")) for row in psql(f"SELECT id, n, note, ref FROM {table} ORDER BY n")]


def expected(rows):
    return [tuple("" if value is None else str(value) for value in row) for row in rows]


def check(form, table):
    """The complaint about a form, or None."""
    psql(f"TRUNCATE {table}")
    form(DIRECT, DISTINCT)
    direct = stored(table)
    psql(f"TRUNCATE {table}")
    form(THROUGH, DISTINCT)
    if not direct == stored(table) == expected(DISTINCT):
        return f"without twins: {stored(table)} through untwin, {direct} directly"
    psql(f"TRUNCATE {table}")
    try:
        form(DIRECT, TWINS)
        return "twins do not fail directly"
    except Exception as error:  # whatever class the driver raises
        if not is_twin_error(error):
            raise
    if stored(table):
        return "directly, part of the batch was stored"
    form(THROUGH, TWINS)
    rows = stored(table)
    keys = [row[0] for row in rows]
    if [row[1:] for row in rows] != [row[1:] for row in expected(TWINS)]:
        return f"through untwin, the other columns are {rows}"
    if len(set(keys)) != len(rows) or keys[0] != str(A) or keys[1] != str(B) or keys[3] != str(C):
        return f"through untwin, the keys are {keys}"
    return None


def run(driver, forms, table="items"):
    """Checks forms {name: (carrier, function)} and exits with 1 if one failed."""
    failures = 0
    for name, (carrier, form) in forms.items():
        if CARRIERS != [""] and carrier not in CARRIERS:
            continue
        try:
            complaint = check(form, table)
        except Exception:
            complaint = traceback.format_exc(limit=-3).strip().replace("\n", "\n    ")
        failures += complaint is not None
        print(f"ok {driver} {name} ({carrier})" if complaint is None else f"FAIL {driver} {name} ({carrier}): {complaint}", flush=True)
    sys.exit(1 if failures else 0)
