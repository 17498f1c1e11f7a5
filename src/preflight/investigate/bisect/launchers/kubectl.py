"""Kubernetes: applies a manifest (a Job, PyTorchJob ...), waits until it ended, shows its logs, deletes it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence

from preflight.errors import InputError, UsageError
from preflight.investigate.bisect.launchers import Point, filled
from preflight.investigate.bisect.running import Launch

_SCRIPT = """\
name=$(kubectl apply -o name -f {file} | head -n 1) || exit 125
[ -n "$name" ] || exit 125
code=125
while :; do
  types=$(kubectl get "$name" -o 'jsonpath={{.status.conditions[?(@.status=="True")].type}}') || break
  case " $types " in
    *" Complete "*|*" Succeeded "*) code=0; break ;;
    *" Failed "*) code=1; break ;;
  esac
  sleep {every}
done
kubectl logs "$name" --all-containers --prefix --tail=-1
kubectl delete --wait=true -f {file}
exit $code
"""


def launch(program: Sequence[str], point: Point) -> Launch:
    """Return the commands; the program is one manifest, in which names in braces are filled in.

    Raises:
        UsageError: There is more or less than one manifest.
        InputError: It cannot be read.
    """
    if len(program) != 1:
        raise UsageError(
            "kubectl takes one manifest", "preflight investigate bisect ... --launcher kubectl -- job.yaml"
        )
    try:
        with open(program[0], encoding="utf-8") as file:
            (text,) = filled([file.read()], point.words())
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{program[0]}: cannot be read: {error}") from None
    words = "-".join(str(point.words().get(name, "")) for name in ("gpus", "value", "batch", "layers", "commit"))
    path = os.path.join(os.path.abspath(point.state), f"manifest-{words.strip('-') or 'job'}.yaml")
    script = _SCRIPT.format(file=shlex.quote(path), every=os.environ.get("PREFLIGHT_KUBECTL_EVERY", "5"))
    return Launch(
        argv=("sh", "-c", script), environment=point.environment, folder=point.folder, files={path: text},
        cleanup=("kubectl", "delete", "--wait=false", "-f", path),
    )  # fmt: skip
