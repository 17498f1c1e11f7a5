"""Networks of libraries, drawn from their layers: what ``torchvision.models.resnet50()`` is made of.

The library is not there to be read. What is known of its networks is written down in the catalog as a script would
write it, and followed like one when somebody asks for a part of such a network, for its size or for what its forward
pass keeps. Places inside a drawing are places of the script's call.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from preflight.catalog.network_files import network_file
from preflight.source.script import Script, read_script
from preflight.source.values import Class, Ext, Func, Module, Obj, Value, plain, settle

if TYPE_CHECKING:
    from preflight.source.evaluate.machine import Machine
    from preflight.source.trace import Event

ROOM = 150_000
"""Steps that one drawing may take; they are not taken from the script's own."""
_FOLDERS = ("models", "layers", "ops", "segmentation")
_FACTORIES = ("create_model", "get_model", "hub.load")


def drawing_of(m: Machine, network: Obj) -> Obj | None:
    """Return the drawing of a network that a library made, or None where there is none.

    What the script has put in the place of parts (``model.fc = ...``) is in it.
    """
    if network.kind != "call" or network.cls is not None or "." not in network.name:
        return None
    known = m.drawings.get(id(network))
    if known is not None:
        return known[1]
    m.drawings[id(network)] = (network, None)  # while it is drawn, and where it cannot be
    asked = _asked(network)
    file = network_file(asked[0], asked[1]) if asked is not None else None
    if asked is None or file is None or network.open_args or not _lies_in(network.name, file.stem):
        return None
    drawn = _draw(m, _module(m, file, asked[0]), asked[1], network, asked[2])
    if drawn is not None:
        drawn.attrs.update({n: v for n, v in network.attrs.items() if _is_put(n, v, network)})
        m.drawings[id(network)] = (network, drawn)
    return drawn


def class_of(m: Machine, value: Value) -> Value:
    """Return the drawing of a library's class for its name, where there is one; else the value itself."""
    if not isinstance(value, Ext) or value.name.count(".") < 2:
        return value
    library, last = value.name.partition(".")[0], value.name.rpartition(".")[2]
    file = network_file(library, last) if last[:1].isupper() else None
    if file is None or not _lies_in(value.name, file.stem):
        return value
    module = _module(m, file, library)
    found = module.namespace.get(last) if module is not None else None
    return found if isinstance(found, Class) else value


def forward_of(m: Machine, drawn: Obj, call: Obj) -> tuple[Value, list[Event]] | None:
    """Follow the forward pass of a drawing for one call of the network: what it returns, and the calls inside."""
    from preflight.source.evaluate.functions import call_function

    member = drawn.cls.lookup("forward") if drawn.cls is not None else None
    if not isinstance(member, Func) or call.site is None:
        return None
    begun = len(m.trace.drawn)
    node = call.site.node
    result = _apart(m, call, lambda: call_function(m, member, [drawn, *call.args], call.kwargs, node))
    return (result, m.trace.drawn[begun:]) if result is not None else None


def _lies_in(name: str, stem: str) -> bool:
    """Whether a library has a network under this name: other files of it have a ``Block``, too."""
    return name.split(".")[-2] in (*_FOLDERS, stem) or name.endswith(_FACTORIES)


def _is_put(name: str, value: Value, network: Obj) -> bool:
    """Whether an attribute was assigned by the script, and not only read."""
    held = settle(value)
    read = isinstance(held, Obj) and held.kind == "attr" and held.receiver is network
    return not name.startswith(("<", "[")) and not read


def _asked(network: Obj) -> tuple[str, str, dict[str, Value]] | None:
    """The library, the name and the arguments of what a call makes."""
    library, last = network.name.partition(".")[0], network.name.rpartition(".")[2]
    if network.name in ("timm.create_model", "timm.models.create_model", "torchvision.models.get_model"):
        name = plain(network.argument(0, "name" if library == "torchvision" else "model_name"))
        kwargs = {k: v for k, v in network.kwargs.items() if k not in ("model_name", "name", "pretrained")}
        whole = "features_only" not in kwargs  # else it returns what several stages make
        return (library, name.partition(".")[0], kwargs) if whole and isinstance(name, str) else None
    if network.name == "torch.hub.load":
        place, name = plain(network.argument(0, "repo_or_dir")), plain(network.argument(1, "model"))
        from_vision = isinstance(place, str) and place.partition(":")[0] == "pytorch/vision"
        kwargs = {k: v for k, v in network.kwargs.items() if k not in ("repo_or_dir", "model")}
        return ("torchvision", name, kwargs) if from_vision and isinstance(name, str) else None
    return library, last, network.kwargs


def _draw(m: Machine, module: Module | None, name: str, network: Obj, kwargs: dict[str, Value]) -> Obj | None:
    from preflight.source.evaluate.calls import call

    made = module.namespace.get(name) if module is not None else None
    if not isinstance(made, (Func, Class)) or network.site is None:
        return None
    node = network.site.node
    # The names of hubs and factories come first, and are no arguments of the network's own function.
    own = [] if kwargs is not network.kwargs else [class_of(m, settle(arg)) for arg in network.args]
    given = {name: class_of(m, settle(value)) for name, value in kwargs.items()}
    result = _apart(m, network, lambda: call(m, made, own, given, node))
    drawn = settle(result) if result is not None else None
    return drawn if isinstance(drawn, Obj) and drawn.cls is not None else None


def _module(m: Machine, file: Path, library: str) -> Module | None:
    """The drawings of one file, followed once."""
    path = str(file)
    module = m.drawn_modules.get(path)
    if module is None:
        script = _read(file, library)
        module = m.drawn_modules[path] = Module(script.path, script)
        m.apart(lambda: m.run_module(module), ROOM)
    return module


def _read(file: Path, library: str) -> Script:
    script = read_script(file, f"{library}/{file.name}")
    script.drawing = True
    return script


def _apart(m: Machine, place: Obj, body: Callable[[], Value]) -> Value | None:
    """Follow a part of a drawing at the place of a thing of the script, on a budget of its own."""
    outer, placed, drawn_for = m.context, m.placed, m.drawn_for
    m.context, m.placed, m.drawn_for = place.context or m.context, place.site, place
    try:
        return m.apart(body, ROOM)
    finally:
        m.context, m.placed, m.drawn_for = outer, placed, drawn_for
