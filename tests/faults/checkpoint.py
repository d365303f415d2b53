"""A stream's checkpoint seen from outside: how far it is, and damage to its files."""

import random
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

DAMAGES = ("halve", "empty", "flip", "scramble", "remove")


def newest(directory: Path) -> int:
    """The highest number among a directory's files, -1 if there is none."""
    if not directory.exists():
        return -1
    return max((int(f.name) for f in directory.iterdir() if f.name.isdigit()), default=-1)


def planned(root: Path) -> int:
    """The last micro-batch whose input is written down."""
    return newest(root / "checkpoint" / "offsets")


def committed(root: Path) -> int:
    """The last micro-batch that is done."""
    return newest(root / "checkpoint" / "commits")


def running(root: Path) -> bool:
    """Whether a micro-batch is under way."""
    return planned(root) > committed(root)


def wait_for(condition: Callable[[], bool], seconds: float) -> bool:
    """Look every few milliseconds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.01)
    return condition()


def forget_last_commit(root: Path) -> int:
    """As if the process had died just before the end of the last micro-batch."""
    number = committed(root)
    directory = root / "checkpoint" / "commits"
    (directory / str(number)).unlink()
    (directory / f".{number}.crc").unlink(missing_ok=True)
    return number


# the state store -------------------------------------------------------------------------------


@dataclass
class Damage:
    """A file of the state store that was damaged, and its copy."""

    what: str
    file: Path
    copy: Path
    hidden: bool  # the file system's own checksum is gone, too

    def repair(self) -> None:
        """Put the copy back."""
        shutil.copyfile(self.copy / self.file.name, self.file)
        checksum = _checksum(self.file)
        if (self.copy / checksum.name).exists():
            shutil.copyfile(self.copy / checksum.name, checksum)
        elif checksum.exists():
            checksum.unlink()


def damage_newest(root: Path, pick: random.Random, what: str | None = None) -> Damage:
    """Damage what one shard's next start has to read: the newest delta, or else a whole state."""
    shards = sorted(p for p in (root / "checkpoint/state/0").iterdir() if p.name.isdigit())
    files = [f for f in pick.choice(shards).iterdir() if f.suffix in (".changelog", ".zip")]
    last = max(_version(file) for file in files)
    file = max((f for f in files if _version(f) == last), key=lambda f: f.suffix)  # .zip is read
    copy = root / "copies"
    copy.mkdir(exist_ok=True)
    for one in (file, _checksum(file)):
        if one.exists():
            shutil.copyfile(one, copy / one.name)
    damage = Damage(what or pick.choice(DAMAGES), file, copy, pick.random() < 0.7)
    _damage(file, damage.what, pick)
    if damage.hidden or damage.what == "remove":
        _checksum(file).unlink(missing_ok=True)
    return damage


def _damage(file: Path, what: str, pick: random.Random) -> None:
    data = bytearray(file.read_bytes())
    if what == "halve":
        data = data[: len(data) // 2]
    elif what == "empty":
        data = bytearray()
    elif what == "remove":
        file.unlink()
        return
    else:
        for _ in range(1 if what == "flip" else 20):
            data[pick.randrange(len(data))] ^= 1 << pick.randrange(8)
    file.write_bytes(data)


def _version(file: Path) -> int:
    return int(file.stem.split("_")[0])


def _checksum(file: Path) -> Path:
    return file.with_name(f".{file.name}.crc")
