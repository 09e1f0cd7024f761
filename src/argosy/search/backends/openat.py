"""Opens files below a folder without ever following a link, so that nothing outside the folder is read.

A path is taken step by step from open folders: a link that was put in the place of a folder since the listing stops the
way, and a path may be longer than the system allows in one piece. The folders used last stay open, which also spares
the system the long way for every file.
"""

import os
from collections import OrderedDict
from typing import Self

FOLDERS_OPEN_MAX = 64
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# A pipe in the file's place would wait for a writer.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Beneath:
    """The files below `root`. Paths are bytes from there, parted by slashes; the root itself is the empty one."""

    def __init__(self, root: str) -> None:
        self._root = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)  # the root may be a link
        self._folders: OrderedDict[bytes, int] = OrderedDict()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor in (self._root, *self._folders.values()):
            os.close(descriptor)
        self._folders.clear()

    def folder(self, path: bytes) -> int:
        """The folder, open until so many others have been asked for that it is the one unused for longest."""
        missing = []
        while path and path not in self._folders:
            path, _, name = path.rpartition(b"/")
            missing.append(name)
        descriptor = self._used(path)
        while missing:
            name = missing.pop()
            descriptor = os.open(name, _FOLDER, dir_fd=descriptor)
            path = path + b"/" + name if path else name
            self._keep(path, descriptor)
        return descriptor

    def open(self, path: bytes) -> int:
        """A file, or whatever is there now; the caller looks what it is, and closes it."""
        folder, _, name = path.rpartition(b"/")
        return os.open(name, _FILE, dir_fd=self.folder(folder))

    def stat(self, path: bytes) -> os.stat_result:
        """What is there; of a link, the link itself."""
        folder, _, name = path.rpartition(b"/")
        return os.stat(name, dir_fd=self.folder(folder), follow_symlinks=False)

    def _used(self, path: bytes) -> int:
        if not path:
            return self._root
        self._folders.move_to_end(path)
        return self._folders[path]

    def _keep(self, path: bytes, descriptor: int) -> None:
        self._folders[path] = descriptor
        if len(self._folders) > FOLDERS_OPEN_MAX:
            os.close(self._folders.popitem(last=False)[1])
