"""Runs for the tests of the engines: importable by name, as spawned workers need."""

import os
import signal
import sys
import time
from pathlib import Path


def square(x):
    return x * x


def by_mood(mood):
    if mood == "raise":
        raise ValueError("bad mood")
    if mood == "segfault":
        os.kill(os.getpid(), signal.SIGSEGV)
    if mood == "interrupted":
        os.kill(os.getpid(), signal.SIGINT)  # as Ctrl-C in a terminal does to the whole group
    if mood == "exit":
        os._exit(7)
    if mood == "sys.exit":
        sys.exit("enough")
    if mood == "unpicklable":
        return lambda: None
    return mood


def wait_or_touch(config):
    """The first kind ends a little after the second has."""
    what, path = config
    if what == "touch":
        Path(path).touch()
    while not Path(path).exists():
        time.sleep(0.01)
    time.sleep(0.3 if what == "wait" else 0)


def mark_and_sleep(path):
    """Leave this process's id, then outlast every test."""
    Path(path).write_text(str(os.getpid()))
    time.sleep(600)


def die_once(path):
    """Die without a word at the first try."""
    if not Path(path).exists():
        Path(path).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return "survived"


def any_of_these(config):
    name, argument = config
    return globals()[name](argument)


def torch_threads(_):
    import torch

    return torch.get_num_threads()


def process(_):
    time.sleep(0.05)
    return os.getpid()
