"""Small data in the shape of the sepsis data, for the reduced version: one column whose coefficient is a hundred times
smaller than the others. No file and no network."""

import math
import os
import random


def sepsis(rows=8816, seed=1):
    rng = random.Random(seed)
    lines = ["y,age_years,sex_0male_1female,episode_number,const"]
    for _ in range(rows):
        age = min(100, max(0, round(rng.gauss(63, 24))))
        sex = int(rng.random() < 0.47)
        episode = 1 + sum(rng.random() < 0.25 for _ in range(4))
        eta = 5.6 - 0.046 * age + 0.28 * sex - 0.02 * episode
        lines.append("%d,%d,%d,%d,1" % (rng.random() < 1 / (1 + math.exp(-eta)), age, sex, episode))
    return "\n".join(lines) + "\n"


def write(folder):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "sepsis_train.csv"), "w") as file:
        file.write(sepsis())
