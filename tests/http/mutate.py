"""Random changes to valid documents: what a client might send by mistake, and what nobody would."""

import copy
import json

ODD = [None, True, False, 0, 1, -1, 2, 1.5, -0.0, 1e308, 5e-324, -1e308, 2 ** 31, 2 ** 53, 2 ** 63 - 1,
       -2 ** 63, "", "x", "auto", "full", "theta[1]", "theta[", "U[1,1]", "a" * 300, "\u00fc\u4e2d\U0001f600",
       "../x", "train.csv", ".", "\u007f", "%s%n", "NaN", [], {}, [1], [[]], [None], {"name": "sgbd"},
       {"kind": "map"}, [0.1] * 3, [0.1] * 1000, {"value": 1}, ["a", "a"]]


def places(value, path=()):
    """Every place in a document, the whole first."""
    yield path
    children = value.items() if isinstance(value, dict) else enumerate(value) \
        if isinstance(value, list) else ()
    for key, child in children:
        yield from places(child, path + (key,))


def at(document, path):
    for key in path:
        document = document[key]
    return document


def document(rng, base, vocabulary=()):
    """A copy with one to three changes."""
    made = copy.deepcopy(base)
    for _ in range(rng.choice((1, 1, 2, 3))):
        path = rng.choice(list(places(made)))
        if not path:
            if rng.random() < 0.05:
                return rng.choice(ODD)
            path = (rng.choice(list(made) or ["x"]),) if isinstance(made, dict) else ()
            if not path:
                return made
        parent, key = at(made, path[:-1]), path[-1]
        kind = rng.random()
        if kind < 0.6 or not isinstance(parent, dict):
            if isinstance(parent, (dict, list)):
                parent[key] = copy.deepcopy(rng.choice(ODD))
        elif kind < 0.75:
            parent.pop(key, None)
        elif kind < 0.9:
            parent[rng.choice(tuple(vocabulary) + ("x", "", "name", "a/b", "~"))] = \
                copy.deepcopy(rng.choice(ODD))
        else:
            parent[key] = copy.deepcopy(made)
    return made


def text(rng, data):
    """Bytes with one to four changes."""
    made = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4))):
        where = rng.randrange(len(made) + 1)
        kind = rng.random()
        if kind < 0.3 and where < len(made):
            made[where] = rng.randrange(256)
        elif kind < 0.5:
            made[where:where] = bytes(rng.choice((b"\0", b"\n", b",", b'"', b"1e999", b"-", b"\xff", b"[" * 20,
                                                  b"9" * 40, b"NaN", b"\r", b"{}", b"\\u0000", b" ")))
        elif kind < 0.7:
            del made[where:where + rng.randrange(1, 20)]
        elif kind < 0.85:
            made += made[where:where + rng.randrange(1, 200)]
        else:
            del made[where:]
    return bytes(made)


def query(rng, names):
    """Some of these parameters with odd values."""
    values = ["0", "1", "2", "-1", "x", "", "true", "false", "1,2", "theta[1]", "theta[1],theta[2]", "W[1,",
              "]", ",", "99999999999999999999", "1e3", "json", "csv", "npy", "sqlite", "worst", "a" * 500,
              "\u00fc", "%", "1;2", "0000000000000000", "4294967296", "18446744073709551615", "10", "50"]
    return {n: rng.choice(values) for n in rng.sample(list(names), rng.randint(1, len(names)))}


def dumps(value):
    return json.dumps(value).encode()
