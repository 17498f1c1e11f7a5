"""What steps ask of all variables: answers about the tensors that are there now, none of which is kept."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from preflight.monitor.collect.naming import Names  # noqa: E402
from preflight.monitor.collect.variables import Variables  # noqa: E402
from preflight.monitor.collect.writes import Writes  # noqa: E402

pytestmark = pytest.mark.torch


class Rows:
    """A recorder that takes rows and does nothing."""

    iteration = 0

    def number(self) -> int:
        return 0

    def put(self, kind: str, row: tuple[Any, ...]) -> None:
        pass


def known(net: Any, optimizer: Any) -> Variables:
    """The variables of a model and an optimizer, looked at."""
    names = Names()
    names.root(net, given="net")
    variables = Variables(Rows(), names)  # type: ignore[arg-type]
    variables.add_optimizer(optimizer)
    variables.refresh()
    return variables


def owned(variables: Variables) -> list[tuple[str, Any]]:
    return [(variable.name, tensor) for variable, tensor in variables.living(0)]


def test_an_optimizer_s_own_order_does_not_matter() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 1))
    names = [name for name, _ in net.named_parameters()]
    optimizer = torch.optim.SGD(
        [{"params": [net[1].bias, net[0].bias]}, {"params": [net[1].weight, net[0].weight]}], lr=0.1
    )
    variables = known(net, optimizer)
    for _ in range(3):
        told = owned(variables)
        assert [name for name, _ in told] == [f"net.{name}" for name in names]
        assert all(tensor is one for (_, tensor), one in zip(told, net.parameters(), strict=True))


def test_a_list_beside_the_models_leaves_their_names() -> None:
    """A student and its teacher in one list, and what is trained in another: passes are told by the names of parameters."""
    student, teacher = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    names = Names()
    both, trained = torch.nn.ModuleList([student, teacher]), torch.nn.ModuleList([student])
    assert names.root(both, given="both") == "both"
    assert names.root(trained, given="trained") == "trained"
    assert names.of(student) == names.root(student) == "both.0"
    added = torch.nn.Linear(2, 2)
    assert names.root(torch.nn.ModuleList([student, added]), given="more") == "more"
    assert (names.of(student), names.of(added)) == ("both.0", "more.1")
    del both
    gc.collect()
    assert names.root(torch.nn.ModuleList([teacher]), given="rest") == "rest"
    assert names.of(teacher) == "rest.0"  # the list that named it is gone
    whole = torch.nn.Sequential(student)  # a network that holds it is what is passed
    assert names.root(whole, given="whole") == "whole"
    assert names.of(student) == "whole.0"


def test_what_an_optimizer_holds_is_asked_anew() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    variables = known(net, optimizer)
    held = optimizer.param_groups[0]["params"]
    assert len(owned(variables)) == len(owned(variables)) == 4
    stranger = torch.nn.Parameter(torch.zeros(3))
    before, held[1] = held[1], stranger
    assert [name for name, _ in owned(variables)] == ["net.0.weight", "net.1.weight", "net.1.bias"]
    held[1] = before
    held[0], held[2] = held[2], held[0]
    assert [tensor is one for (_, tensor), one in zip(owned(variables), net.parameters(), strict=True)] == [True] * 4
    del held[1:]
    assert [name for name, _ in owned(variables)] == ["net.1.weight"]


def test_flags_and_gradients_are_those_of_now() -> None:
    net = torch.nn.Linear(2, 3)
    variables = known(net, torch.optim.SGD([net.weight], lr=0.1))
    assert not variables.flags_changed()
    assert variables.with_gradients() == {}
    net(torch.ones(1, 2)).sum().backward()
    assert variables.with_gradients() == {0: 1}
    net.bias.requires_grad_(False)
    assert variables.flags_changed()
    variables.refresh()
    assert not variables.flags_changed()


def _other_part(net: Any) -> None:
    net[0] = torch.nn.Linear(2, 3)


def _other_weight(net: Any) -> None:
    net[0].weight = torch.nn.Parameter(torch.zeros(3, 2))


def _buffer_gone(net: Any) -> None:
    net[1].running_mean = None


def _bias_there(net: Any) -> None:
    net[2].bias = torch.nn.Parameter(torch.zeros(1))


def _one_more(net: Any) -> None:
    net.append(torch.nn.ReLU())


def _other_dtype(net: Any) -> None:
    net[2].weight.data = net[2].weight.data.double()


def _other_shape(net: Any) -> None:
    net[2].weight.data = torch.zeros(2, 3)


@pytest.mark.parametrize(
    "change", [_other_part, _other_weight, _buffer_gone, _bias_there, _one_more, _other_dtype, _other_shape]
)
def test_what_has_changed_in_a_model_is_seen_once(change: Any) -> None:
    net = torch.nn.Sequential(
        torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 1, bias=False), torch.nn.Tanh()
    )
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    variables = known(net, optimizer)
    assert not variables.changed()
    change(net)
    assert variables.changed()
    variables.refresh()
    assert not variables.changed()


def test_a_part_that_is_gone_is_a_change() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(2, 3))
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    variables = known(net, optimizer)
    assert not variables.changed()
    del net
    gc.collect()
    assert variables.changed()


def test_no_tensor_is_kept() -> None:
    net = torch.nn.Linear(2, 3)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    variables = known(net, optimizer)
    assert len(owned(variables)) == 2
    gone = weakref.ref(net.weight)
    optimizer.param_groups[0]["params"] = [net.bias]
    net.weight = None
    gc.collect()
    assert gone() is None
    assert [name for name, _ in owned(variables)] == ["net.bias"]
    assert not variables.flags_changed()


def test_what_is_put_into_a_wrapped_model_afterwards_is_meant_to_be_trained_with_it() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 1))
    other = torch.nn.Linear(2, 1)
    variables = known(net, torch.optim.SGD([*net.parameters(), *other.parameters()], lr=0.1))
    variables.replicated(net, [0, 1], True)
    net[1] = torch.nn.BatchNorm1d(3)
    variables.names.root(other, given="other")
    variables.refresh()
    held = {variable.name: variable.part for variable, _ in variables.living()}
    assert all(held[name]["ranks"] == [0, 1] for name in ("net.0.weight", "net.1.weight", "net.1.bias"))  # type: ignore[index]
    assert held["net.1.running_mean"] is None
    assert held["other.weight"] is None


def test_writes_are_told_between_the_steps_of_each_optimizer() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 1))
    first = torch.optim.SGD(net.parameters(), lr=0.1)
    variables = known(net, first)
    second = torch.optim.SGD(net[1].parameters(), lr=0.1)
    variables.add_optimizer(second)
    variables.refresh()
    writes = Writes()
    names = {one.ident: one.name for one in variables.by_name.values()}

    def written(index: int) -> list[str]:
        return [names[ident] for ident in writes.since(variables.lot(index))]

    def write(tensor: Any) -> None:
        with torch.no_grad():
            tensor.add_(1.0)

    assert written(0) == []
    writes.stepped(variables.lot(0))
    assert written(0) == []
    write(net[0].weight)
    assert written(0) == ["net.0.weight"]
    writes.stepped(variables.lot(0))
    write(net[1].bias)
    assert written(1) == ["net.1.bias"]  # since the step of whoever held it
    writes.stepped(variables.lot(1))
    assert written(0) == []
    assert written(1) == []
    write(net[0].bias)
    assert written(0) == ["net.0.bias"]
    assert written(1) == []
    assert not writes.replaced(variables.lot(0))
    net[0].weight = torch.nn.Parameter(torch.zeros(3, 2))
    first.param_groups[0]["params"][0] = net[0].weight
    variables.refresh()
    assert writes.replaced(variables.lot(0))
    assert written(0) == ["net.0.bias"]


def test_of_which_optimizers_tensors_are() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 1))
    variables = known(net, torch.optim.SGD(net[1].parameters(), lr=0.1))
    own, all_ = list(net[1].parameters()), list(net.parameters())
    for _ in range(2):
        assert variables.owners(own) == {0: 2}
        assert variables.owners(own[::-1]) == {0: 2}
        assert variables.owners(all_) == {-1: 2, 0: 2}
        assert variables.owners([torch.zeros(1), own[0]]) == {0: 1}
        assert variables.owners([]) == {}
        variables.lot(0)
