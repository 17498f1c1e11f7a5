"""Who is who: ranks by node and local rank, by process number, by card; learned from everything that was read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise

from preflight.investigate.case.node_events import cards_of
from preflight.vocabulary.log import Reading, Who

_AGENT = re.compile(r"\[?[WE]\d{4} \d\d:\d\d:\d\d\.\d+ (\d+) (?:\S*/)?torch/distributed/elastic/")
_POD = re.compile(r"((?:[a-z0-9]+-)+)(\d{1,5})")
_NODE = re.compile(r"(?:node|machine|host)(?:_rank)?[-_]?(\d{1,5})")
_NUMBERED = re.compile(r"(.*?[A-Za-z][_.-]?)(\d{1,5})")
# So many have to say their rank before the number of what speaks is taken for that of another.
_ENOUGH = 2
# More ranks than that are not listed when only their number is known.
MOST_RANKS = 65_536


class People:
    """The ranks of a run and what else they are called."""

    def __init__(self, reading: Reading) -> None:
        """Learn from files, lines, steps, ends and dumps."""
        self.node_of: dict[int, str] = {}
        self.local_of: dict[int, int] = {}
        self.by_local: dict[tuple[str | None, int], int] = {}
        self.by_pid: dict[tuple[str | None, int], int] = {}
        self._pids: dict[int, set[int]] = {}
        self._locals: dict[int, set[int]] = {}
        self.by_node: dict[str, int] = {}
        self._told_in = _told_in_tables(reading)
        self.by_card: dict[tuple[str | None, str], int] = {}
        self.seen: set[int] = set()
        self.per_node: int | None = None
        self.nodes: set[str] = set()
        self.files = {file.index: file.who for file in reading.files}
        for who in _everybody(reading):
            self._learn(who)
        spoken = {(one.who, one.file) for one in reading.spoke} | {(one.who, one.file) for one in reading.steps}
        told = {(who.node or self.file_node(file), who.local_rank) for who, file in spoken}
        self._heard = {(node, local) for node, local in told if node is not None and local is not None}
        self._continue_nodes()
        self._continue_places({local for node, local in told if node is None and local is not None})
        self._number_one_agent(reading)
        self._number_places()
        self._number_pods()
        self._number_like_others()
        self._number_by_size(reading)
        self._number_the_one_left(reading)
        workers = self._workers_of_one_agent(reading)
        self.world = reading.world_size
        if self.world is None and (self.seen or workers):
            self.world = max(max(self.seen, default=-1) + 1, workers)
        # From here on nobody moves: thousands of ranks are not looked through for each node.
        self._on_node = self._by_node()
        self._placed: dict[tuple[int, Who], tuple[int | None, str | None]] = {}
        self._learn_cards(reading)

    def _by_node(self) -> dict[str, tuple[int, ...]]:
        found: dict[str, list[int]] = {}
        for rank in sorted(self.node_of):
            found.setdefault(self.node_of[rank], []).append(rank)
        return {node: tuple(ranks) for node, ranks in found.items()}

    def _learn(self, who: Who) -> None:
        if who.node is not None:
            self.nodes.add(who.node)
        if who.rank is None:
            return
        self.seen.add(who.rank)
        if who.node is not None:
            self.node_of.setdefault(who.rank, who.node)
        node = self.node_of.get(who.rank)
        if who.local_rank is not None:
            self.local_of.setdefault(who.rank, who.local_rank)
            self._locals.setdefault(who.local_rank, set()).add(
                self.by_local.setdefault((node, who.local_rank), who.rank)
            )
        if who.pid is not None:
            self._pids.setdefault(who.pid, set()).add(self.by_pid.setdefault((node, who.pid), who.rank))

    def _continue_nodes(self) -> None:
        """Give the local ranks of a node their ranks where one of them is known: launchers number a node without gaps."""
        bases: dict[str, set[int]] = {}
        for (node, local), rank in self.by_local.items():
            if node is not None:
                bases.setdefault(node, set()).add(rank - local)
        self._fill_gap(bases)
        self._fill_nodes(bases)
        for who in [*self.files.values(), *(Who(None, node, local) for node, local in sorted(self._heard))]:
            if who.node is None or who.local_rank is None or who.rank is not None:
                continue
            base = bases.get(who.node, set())
            if len(base) == 1 and (rank := next(iter(base)) + who.local_rank) >= 0:
                self._learn(Who(rank, who.node, who.local_rank))

    def _continue_places(self, heard: Iterable[int]) -> None:
        """Give the places that speak their ranks where no node is told and all others that tell theirs count from the same one."""
        bases = {rank - local for local, ranks in self._locals.items() for rank in ranks}
        if self.nodes or len(bases) != 1:
            return
        base = next(iter(bases))
        for local in heard:
            if local not in self._locals and base + local >= 0:
                self._learn(Who(base + local, None, local))

    def _number_one_agent(self, reading: Reading) -> None:
        """Take the local ranks of the only agent that speaks for the ranks, unless something tells of more nodes."""
        if len(self.nodes) > 1 or any(rank != local for rank, local in self.local_of.items()):
            return
        told = [ending.about for ending in reading.endings if ending.about.local_rank is not None]
        known = [who for who in told if who.rank is None and who.node is None]
        most = max((who.local_rank or 0 for who in known), default=-1)
        if not known or len({ending.file for ending in reading.endings}) > 1:
            return
        if reading.world_size is not None and reading.world_size > 8 * (most // 8 + 1):
            return
        for who in known:
            self._learn(Who(who.local_rank, None, who.local_rank, who.attempt, who.pid))

    def _number_the_one_left(self, reading: Reading) -> None:
        """Take the only worker of Ray of which nothing tells the rank for the only one of which nothing else is seen."""
        told = {ending.about.pid for ending in reading.endings if ending.teller == "ray" and ending.about.rank is None}
        told |= {
            hit.about.pid for hit in reading.hits if hit.signature == "elastic.ray-task-error" and hit.about is not None
        }
        if told or any(hit.signature == "benign.ray-repeated" for hit in reading.hits):
            told |= {one.hit.who.pid for one in reading.raised if one.hit.who.rank is None}
        unknown = {pid for pid in told if pid is not None and pid not in self._pids}
        left = set(range(reading.world_size or max(self.seen, default=-1) + 1)) - self.seen
        few = reading.world_size is None and len(self.seen) < 2  # one rank that speaks does not tell how many there are
        if len(unknown) == len(left) == 1 and not few:
            self._learn(Who(left.pop(), pid=unknown.pop()))

    def _workers_of_one_agent(self, reading: Reading) -> int:
        """Return how many workers the only agent that speaks had, as far as it tells of their ends; and learn which is which.

        It starts them in the order of their places, and so their numbers rise: where all of them are told of, that of one tells
        the place of each.
        """
        agents = {told[1] for hit in reading.hits if (told := _AGENT.match(hit.text))}
        if len(agents) != 1 or len(self.nodes) > 1 or any(rank != local for rank, local in self.local_of.items()):
            return 0
        most = 0
        for block in _blocks(reading):
            most = max(most, len(block))
            pids = sorted(block)
            known = {pid: local for pid, local in block.items() if local is not None}
            in_order = all(pids[local : local + 1] == [pid] for pid, local in known.items())
            whole = (
                pids[-1] - pids[0] == len(pids) - 1
                or len(pids) - 1 in known.values()
                or len(pids) == reading.world_size
            )
            if known and in_order and whole:
                for local, pid in enumerate(pids):
                    self._learn(Who(local, None, local, None, pid))
        return most

    def _number_places(self) -> None:
        """Give the places on nodes that are numbered from nought their ranks, where nothing tells any rank and all nodes have as many.

        Launchers number the ranks node by node.
        """
        found: dict[int, tuple[str, set[int]]] = {}
        for node, local in self._heard:
            if (number := _NODE.fullmatch(node)) is None:
                return
            found.setdefault(int(number[1]), (node, set()))[1].add(local)
        size = max((len(places) for _, places in found.values()), default=0)
        whole = all(places == set(range(size)) for _, places in found.values())
        if (
            self.seen
            or len(found) < 2
            or len(found) != len(self.nodes)
            or set(found) != set(range(len(found)))
            or not whole
        ):
            return
        for place, (node, places) in sorted(found.items()):
            for local in sorted(places):
                self._learn(Who(place * size + local, node, local))

    def _number_pods(self) -> None:
        """Take the ordinals of pods as ranks where nothing tells otherwise: a job numbers its pods without gaps.

        The first of a job with a master is the master; of its workers the first is the next one. Where some say their ranks,
        one that is not the first has to say what its place is: then each pod holds one.
        """
        if self._heard or any(who.local_rank is not None for who in self.files.values()):
            return
        sets: dict[str, dict[int, str]] = {}
        for node in self.nodes:
            found = _POD.fullmatch(node)
            if found:
                sets.setdefault(found[1], {})[int(found[2])] = node
        if sum(len(pods) for pods in sets.values()) != len(self.nodes) or any(
            set(pods) != set(range(len(pods))) for pods in sets.values()
        ):
            return
        first = [stem for stem in sets if stem.endswith("master-") and len(sets[stem]) == 1]
        rest = [stem for stem in sets if stem not in first]
        if len(first) > 1 or len(rest) != 1 or len(self.nodes) < 2:
            return
        ordered = [sets[stem][number] for stem in (*first, *rest) for number in sorted(sets[stem])]
        fit = all(rank < len(ordered) and self.node_of.get(rank) == ordered[rank] for rank in self.seen)
        if self.seen and (not fit or max(self.seen) == 0):
            return
        for rank, node in enumerate(ordered):
            self.by_node[node] = rank
            self._learn(Who(rank, node))

    def _number_like_others(self) -> None:
        """Take the number of what speaks for its rank where that is so of all others that tell theirs, and one alone is left."""
        numbers: dict[int, str] = {}
        stems: set[str] = set()
        for node in self.nodes:
            found = _NUMBERED.fullmatch(node)
            if found is None:
                return
            stems.add(found[1])
            numbers[int(found[2])] = node
        alone = len(numbers) == len(self.nodes) and len(stems) == 1 and set(numbers) == set(range(len(numbers)))
        left = set(numbers) - self.seen
        if not alone or len(left) != 1 or len(self.seen) < _ENOUGH:
            return
        if all(rank in numbers and self.node_of.get(rank) == numbers[rank] for rank in self.seen):
            rank = left.pop()
            self.by_node[numbers[rank]] = rank
            self._learn(Who(rank, numbers[rank]))

    def _number_by_size(self, reading: Reading) -> None:
        """Take the numbers of what speaks for ranks where no rank is told and as many speak as the run is said to have.

        A loop that starts one process after the other names their files so (``worker.0.txt``), and who says how many there are
        says as well that each of them is one; where steps are told in none of them and elsewhere, they are helpers of that one.
        """
        found = [told for node in self.nodes if (told := _NUMBERED.fullmatch(node))]
        numbers = {int(told[2]): told[0] for told in found}
        alone = len(numbers) == len(self.nodes) and len({told[1] for told in found}) == 1
        if self.seen or self._heard or len(numbers) < _ENOUGH or len(numbers) != reading.world_size or not alone:
            return
        if set(numbers) != set(range(len(numbers))) or any(who.local_rank for who in self.files.values()):
            return
        trained = {step.who.node or self.file_node(step.file) for step in reading.steps}
        if trained and trained.isdisjoint(self.nodes):
            return
        for rank, node in sorted(numbers.items()):
            self.by_node[node] = rank
            self._learn(Who(rank, node))

    def _fill_nodes(self, bases: dict[str, set[int]]) -> None:
        """Say how many ranks a node has, and give ranks without a node that of the ranks around them."""
        begins = {next(iter(found)): node for node, found in bases.items() if len(found) == 1}
        most = max((local for _, local in self.by_local), default=0) + 1
        gaps = [other - one for one, other in pairwise(sorted(begins))]
        size = min([gap for gap in gaps if gap >= most], default=most)
        if len(begins) != len(bases) or not begins or any(begin % size for begin in begins):
            return
        self.per_node = size
        for rank in self.seen:
            node = begins.get(rank // size * size)
            if rank not in self.node_of and node is not None:
                self.node_of[rank] = node

    def block(self, rank: int) -> tuple[int, ...]:
        """Return the ranks that are on the node of a rank; itself alone where that is not known."""
        node = self.node_of.get(rank)
        if node is not None:
            return self.of_node(node)
        if self.per_node is None:
            return (rank,)
        first = rank // self.per_node * self.per_node
        return tuple(range(first, first + self.per_node))

    def _fill_gap(self, bases: dict[str, set[int]]) -> None:
        """Give the one node that tells no rank the ranks that all other nodes leave free."""
        locals_of: dict[str, set[int]] = {}
        heard = {(who.node, who.local_rank) for who in self.files.values()} | self._heard
        for node, local in heard:
            if node is not None and local is not None:
                locals_of.setdefault(node, set()).add(local)
        unknown = [node for node in locals_of if node not in bases]
        size = max((len(found) for found in locals_of.values()), default=0)
        begins = {next(iter(found)) for found in bases.values() if len(found) == 1}
        if len(unknown) != 1 or not size or len(begins) != len(bases) or any(base % size for base in begins):
            return
        free = sorted(set(range(0, size * len(locals_of), size)) - begins)
        if len(free) == 1:
            bases[unknown[0]] = {free[0]}

    def _learn_cards(self, reading: Reading) -> None:
        self.by_card.update(cards_of(reading, self))

    def rank_of(self, who: Who | None, file: int | None = None) -> int | None:
        """Return the rank of somebody, by whatever is known of him."""
        if who is None:
            return None
        if who.rank is not None:
            return who.rank
        told, where = self._told_in.get((file, who.local_rank), (None, None))
        if told is not None and who.node in (None, where):
            return told
        node = who.node if who.node is not None else self.file_node(file)
        tables = ((self.by_pid, self._pids, who.pid), (self.by_local, self._locals, who.local_rank))
        for table, alone, key in tables:
            if key is None:
                continue
            found = table.get((node, key))
            if found is None and len(alone.get(key, ())) == 1:
                found = next(iter(alone[key]))
                found = found if node is None or self.node_of.get(found) in (None, node) else None
            if found is not None:
                return found
        if node is not None and node in self.by_node:
            return self.by_node[node]
        # With one agent alone the place on the node is the rank.
        return who.local_rank if len(self.nodes) < 2 and not self.by_local else None

    def placed(self, who: Who, file: int) -> tuple[int | None, str | None]:
        """Return the rank and the node of who wrote lines of a file; asked of thousands of them, found once."""
        found = self._placed.get((file, who))
        if found is None:
            found = self._placed[file, who] = (self.rank_of(who, file), self.node_of_who(who, file))
        return found

    def file_node(self, file: int | None) -> str | None:
        """Return the node on which a file was written."""
        return self.files[file].node if file is not None and file in self.files else None

    def node_of_who(self, who: Who | None, file: int | None = None) -> str | None:
        """Return the node of somebody."""
        if who is not None and who.node is not None:
            return who.node
        rank = self.rank_of(who, file)
        if rank is not None and rank in self.node_of:
            return self.node_of[rank]
        return self.file_node(file)

    def of_node(self, node: str) -> tuple[int, ...]:
        """Return the ranks of a node."""
        return self._on_node.get(node, ())

    def unplaced(self) -> frozenset[tuple[str, int]]:
        """Return the places on nodes that speak and of which nothing tells the rank."""
        return frozenset(place for place in self._heard if place not in self.by_local)

    def ranks(self) -> tuple[int, ...]:
        """Return all ranks: those seen, and those that must be there by the size of the run."""
        world = self.world or 0
        return tuple(sorted(self.seen | set(range(world if world <= MOST_RANKS else 0))))


def _told_in_tables(reading: Reading) -> dict[tuple[int | None, int | None], tuple[int, str | None]]:
    """Return the rank at each place of a node and that node, by the file whose agent tells them: two agents may run on one machine."""
    found: dict[tuple[int | None, int | None], set[tuple[int, str | None]]] = {}
    for ending in reading.endings:
        who = ending.about
        if ending.file is not None and who.rank is not None and who.local_rank is not None:
            found.setdefault((ending.file, who.local_rank), set()).add((who.rank, who.node))
    return {place: next(iter(told)) for place, told in found.items() if len(told) == 1}


def _blocks(reading: Reading) -> Iterator[dict[int, int | None]]:
    """Yield the workers of which an agent tells, by process, with their place where it says so; those of each start by themselves."""
    told: list[tuple[int, int, int | None, int | None, bool]] = [
        (hit.file, hit.line, hit.about.pid if hit.about is not None else None, None, False)
        for hit in reading.hits
        if hit.signature == "elastic.closing"
    ]
    told += [
        (one.file or 0, one.line or 0, one.about.pid, one.about.local_rank, True)
        for one in reading.endings
        if one.teller == "torchrun" and one.message is None
    ]
    block: dict[int, int | None] = {}
    ended = False
    for _, _, pid, local, end in sorted(told, key=lambda one: one[:2]):
        if ended and not end:  # what an agent stops after it had told of an end are the workers of its next start
            yield block
            block, ended = {}, False
        if pid is not None:
            block[pid] = local if local is not None else block.get(pid)
        ended = ended or end
    if block:
        yield block


def _everybody(reading: Reading) -> Iterator[Who]:
    yield from (file.who for file in reading.files)
    # The owner of a file first: what a line says of itself is completed by it.
    owners = {file.index: file.who for file in reading.files}
    yield from _completed(((hit.who, hit.file) for hit in reading.hits), owners)
    yield from _completed(((raised.hit.who, raised.hit.file) for raised in reading.raised), owners)
    yield from _completed(((step.who, step.file) for step in reading.steps), owners)
    yield from _completed(((spoke.who, spoke.file) for spoke in reading.spoke), owners)
    yield from (ending.about for ending in reading.endings)
    yield from (flight.who for flight in reading.flights)
    yield from (stack.who for stack in reading.stacks)
    yield from _completed(((hit.about, hit.file) for hit in reading.hits if hit.about is not None), owners)


def _completed(pairs: Iterable[tuple[Who, int]], owners: dict[int, Who]) -> Iterator[Who]:
    seen: set[tuple[Who, int]] = set()
    for who, file in pairs:
        if (who, file) in seen:
            continue
        seen.add((who, file))
        owner = owners.get(file)
        if owner is None or (who.node is not None or owner.node is None):
            yield who
        else:
            yield Who(who.rank, owner.node, who.local_rank, who.attempt, who.pid)
