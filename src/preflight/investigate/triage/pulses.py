"""Who lives, asked from a process of its own: ``python -m ... HOST:PORT DEADLINE STALLED [WORLD_SIZE]`` prints it as JSON."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Print what is known of each rank; ends with 1 and one line where the store does not answer."""
    import msgspec

    from preflight.errors import PreflightError
    from preflight.investigate.liveness.board import endpoint_of
    from preflight.investigate.liveness.observer import observe

    said, status = b"", 0
    errors = os.dup(2)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # torch prints C++ frames where a connection fails
    try:
        world = int(sys.argv[4]) if len(sys.argv) > 4 else None
        pulses = observe(
            endpoint_of(sys.argv[1]), deadline=float(sys.argv[2]), stall=sys.argv[3] == "1", world_size=world
        )
        said = msgspec.json.encode(pulses)
    except PreflightError as error:
        os.write(errors, f"{error}{f' ({error.hint})' if error.hint else ''}\n".encode())
        status = 1
    sys.stdout.buffer.write(said)
    sys.stdout.flush()
    os._exit(status)  # a thread may still wait for a store that does not answer


if __name__ == "__main__":
    main()
