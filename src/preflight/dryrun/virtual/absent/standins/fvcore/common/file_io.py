"""Local files."""

from preflight.dryrun.virtual.absent.standins.iopath.common.file_io import PathManager as _Manager

PathManager = _Manager()
