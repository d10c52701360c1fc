"""Predictions of held-out ratings from the draws of a factorisation, averaged over the draws, as the daemon's ergodic
rMSE does: what the exact posterior's predictions can be compared with row by row."""

import array
import ast
import csv
import struct
from operator import mul


class Shape:
    """Rank and, from the training ratings, their mean and range and the number of users."""

    def __init__(self, file, rank=20):
        rows = list(csv.reader(file))[1:]
        ratings = [float(row[2]) for row in rows]
        self.rank, self.mean = rank, sum(ratings) / len(ratings)
        self.users = max(int(row[0]) for row in rows)
        self.low, self.high = min(ratings), max(ratings)


def npy(content):
    """(shape, numbers) of a little-endian array of doubles."""
    size = struct.unpack("<H", content[8:10])[0]
    header = ast.literal_eval(content[10:10 + size].decode())
    assert header["descr"] == "<f8" and not header["fortran_order"], header
    numbers = array.array("d")
    numbers.frombytes(content[10 + size:])
    return header["shape"], numbers


def of(content, test, shape):
    """U comes first, V behind it, row by row."""
    (chains, draws, d), numbers = npy(content)
    with open(test) as file:
        pairs = [(int(row[0]) - 1, int(row[1]) - 1) for row in list(csv.reader(file))[1:]]
    rank = shape.rank
    at = [(u, shape.users + i) for u, i in pairs]
    total = [0.0] * len(pairs)
    for k in range(chains * draws):
        theta = numbers[k * d:(k + 1) * d].tolist()
        vectors = [theta[j:j + rank] for j in range(0, d, rank)]
        for n, (u, v) in enumerate(at):
            p = shape.mean + sum(map(mul, vectors[u], vectors[v]))
            total[n] += shape.low if p < shape.low else shape.high if p > shape.high else p
    return [round(t / (chains * draws), 4) for t in total]


def distance(a, b):
    return (sum((x - y) ** 2 for x, y in zip(a, b)) / len(a)) ** 0.5
