"""Every error that strop raises on purpose. `StropError` is the base of all of them.

Each message is one line for a person: the rule, what was given, and what to do. The command line prints it without a
traceback. Those that mean a wrong argument are also the built-in error that one would expect.
"""

from __future__ import annotations


class StropError(Exception):
    """Base of every error of strop's.

    Examples:
        >>> import strop
        >>> try:
        ...     strop.horizon(spread=-1.0)
        ... except strop.StropError as error:
        ...     print(error)
        spread must be at least 0, got -1.0.
    """


class ArgumentError(StropError, ValueError):
    """An argument that makes no sense."""


class ArgumentTypeError(StropError, TypeError):
    """An argument of a kind that makes no sense."""


class UnsupportedError(StropError, NotImplementedError):
    """Something that a model or an implementation does and strop does not know."""


class MissingExtraError(StropError, ModuleNotFoundError):
    """A package that strop's core does without and this needs; the message has the command that adds it."""


class StateError(StropError, RuntimeError):
    """Something that went otherwise than it had to, such as a patch that was never reached."""


class RankError(StropError, RuntimeError):
    """Another rank of the group that died, did not answer in time, or is not doing the same."""


class NothingToMendError(StropError):
    """A model that does what is asked at every size that was tried: it needs no edge."""


class RecordsError(StropError):
    """A file or folder that cannot be read or written."""


class DamagedFileError(RecordsError):
    """A file whose content is not what was written: torn, cut off or changed."""


class SourceError(StropError):
    """A model that cannot be found or opened, and what to do about it."""


class EdgeError(StropError):
    """An edge that does not fit the model, or cannot do what was asked."""


class EdgeFileError(RecordsError):
    """A file that is whole but no edge that this version can read."""


class BakeError(StropError):
    """An edge that cannot be folded into this model, and why."""


class StropWarning(UserWarning):
    """Something that a user should know of a result: what was left out, or what may flatter it."""
