"""Recipes: the code blocks of a README's section "Adding one more", applied to a copy of the tree.

A block says in the words behind its language what is done with it, which Markdown viewers do not show:

    ```c new core/samplers/NAME.c            a new file
    ```c into core/samplers/sampler.h after SAMPLER_LIST(X)     lines behind the first line that holds the text; `after A then B`:
                                             behind the first with B that follows the first with A
    ```json merge schema/openapi.json        members that are added to a JSON document

One section may hold several recipes, each under a heading of its own ("### A sampler").
"""

import json
import os
import re


class Rotten(Exception):
    """A recipe that cannot be carried out."""


def section(readme, heading):
    """The lines under a heading, up to the next heading of its level or above; # inside a code block begins no heading."""
    with open(readme, encoding="utf-8") as file:
        lines = file.read().split("\n")
    level, found, fenced = 0, [], False
    for line in lines:
        fenced ^= line.lstrip().startswith("```")
        marks = 0 if fenced else len(line) - len(line.lstrip("#"))
        if level and 0 < marks <= level:
            break
        if level:
            found.append(line)
        elif marks and line[marks:].strip() == heading:
            level = marks
    if not level:
        raise Rotten("%s has no heading %r" % (readme, heading))
    return found


def read(readme, heading):
    """The blocks under a heading: (verb, path, place or None, text)."""
    blocks, begin, text = [], None, ""
    for line in section(readme, heading):
        if begin is None:
            begin = re.match(r"( *)```\w+ (new|into|merge) (\S+)(?: after (.*))?$", line)
            text = ""
        elif line.strip() == "```":
            blocks.append((*begin.groups()[1:], text))
            begin = None
        else:
            text += line.removeprefix(begin.group(1)) + "\n"
    if not blocks:
        raise Rotten("%s, %r: no code block says new, into or merge" % (readme, heading))
    return blocks


def insert(path, place, text):
    with open(path, encoding="utf-8") as file:
        lines = file.readlines()
    at = -1
    for part in place.split(" then "):
        at = next((i for i in range(at + 1, len(lines)) if part in lines[i]), None)
        if at is None:
            raise Rotten("%s has no line with %r" % (path, part))
    lines.insert(at + 1, text)
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(lines)


def add_members(old, new):
    for key, value in new.items():
        if isinstance(value, dict) and isinstance(old.get(key), dict):
            add_members(old[key], value)
        else:
            old[key] = value


def merge(path, text):
    with open(path, encoding="utf-8") as file:
        document = json.load(file)
    add_members(document, json.loads(text))
    with open(path, "w", encoding="utf-8") as file:
        json.dump(document, file, indent=2, ensure_ascii=False)


def apply(root, readme, heading):
    """Carries out a recipe and returns the places that it touched."""
    blocks = read(os.path.join(root, readme), heading)
    for verb, path, place, text in blocks:
        at = os.path.join(root, path)
        if verb == "new":
            if os.path.exists(at):
                raise Rotten("%s exists already" % path)
            with open(at, "w", encoding="utf-8") as file:
                file.write(text)
        elif verb == "into":
            insert(at, place, text)
        else:
            merge(at, text)
    return [path for _, path, _, _ in blocks]
