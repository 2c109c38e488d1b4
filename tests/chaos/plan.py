"""The plan of a seed: all actions of upstreams and users, and all faults, with their times. Pure.

Seeds keep their meaning only while this module stays as it is: what a seed has found belongs into `REGRESSIONS` of
`test_seeds.py`, beside its number.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from kb_contracts.documents import DocumentEvent
from kb_shared.failpoints import OF_INDEXER
from tests.chaos.knowledge_plan import (
    EntryChange,
    KillRunner,
    SourceChange,
    changes_of_entries,
    changes_of_source,
    kills_of_runner,
)
from tests.chaos.workload import Upstream, paragraph

TAGS = ("a", "b", "c")
WATCHED = ("watched-fast", "watched-slow", "watched-still")
"""Documents that readers look at all the time; the last one never changes."""
WATCHED_TAG = "a"
READ = "read"
"""The KB that is read: it keeps `WATCHED_TAG`, whatever else happens to it."""

_DOCUMENTS_A_SECOND = 1.2
_LATE = 0.2
_TWICE = 0.15
_FAILPOINTS = tuple(
    name for name in OF_INDEXER if name.startswith(("fan_out.", "consumer.", "sync.", "embed.", "swap."))
)
_RARER_FAILPOINTS = tuple(name for name in OF_INDEXER if name not in _FAILPOINTS)


@dataclass(frozen=True, slots=True)
class Deliver:
    """An event reaches the broker; `event` may be old, late, or known already."""

    at_s: float
    event: DocumentEvent


@dataclass(frozen=True, slots=True)
class SendMalformed:
    """A record that can't be decoded, in the partition of a document."""

    at_s: float
    document_id: str
    malformed: bytes


@dataclass(frozen=True, slots=True)
class ReviseWatched:
    """The next text of a watched document, or a former text again."""

    at_s: float
    document_id: str
    replay: bool


@dataclass(frozen=True, slots=True)
class Create:
    at_s: float
    name: str
    tag_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Retag:
    at_s: float
    name: str
    tag_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Drop:
    at_s: float
    name: str


Change = Deliver | SendMalformed | ReviseWatched | Create | Retag | Drop | EntryChange | SourceChange


@dataclass(frozen=True, slots=True)
class Kill:
    """SIGKILL of an indexer, which comes back at `until_s`."""

    at_s: float
    until_s: float
    replica: int


@dataclass(frozen=True, slots=True)
class KillAt:
    """An indexer that is to die at a failpoint, and comes back at `until_s` whether it did or not."""

    at_s: float
    until_s: float
    replica: int
    failpoint: str
    nth: int


@dataclass(frozen=True, slots=True)
class Freeze:
    """SIGSTOP of an indexer, SIGCONT at `until_s`: others may have taken over what it believes to be its own."""

    at_s: float
    until_s: float
    replica: int


@dataclass(frozen=True, slots=True)
class Join:
    """One more indexer, which leaves in good order at `until_s`."""

    at_s: float
    until_s: float


@dataclass(frozen=True, slots=True)
class RestartBroker:
    """The broker loses everything it has."""

    at_s: float
    until_s: float


@dataclass(frozen=True, slots=True)
class Misbehave:
    """Fault of the embedding provider until `until_s`, as its `/admin/hash` takes it."""

    at_s: float
    until_s: float
    program: dict[str, Any]


ProcessFault = Kill | KillAt | Freeze | Join | RestartBroker


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """Each sequence is in the order of time; faults of one sequence never overlap."""

    seed: int
    seconds: float
    replicas: int
    lag_ms: int
    """Lag of the search index."""
    heals_by_restart: bool
    """True if all producers are restarted in the end; else leases of dead processes have to expire."""
    changes: Sequence[Change]
    process_faults: Sequence[ProcessFault]
    provider_faults: Sequence[Misbehave]
    runner_kills: Sequence[KillRunner]


def create_plan(seed: int, *, seconds: float, replicas: int, upstream: Upstream) -> FaultPlan:
    # A generator each: what one part draws changes nothing of the others.
    dice = random.Random(f"run/{seed}")
    return FaultPlan(
        seed=seed,
        seconds=seconds,
        replicas=replicas,
        lag_ms=dice.choice([0, 50, 300, 1000]),
        heals_by_restart=dice.random() < 0.5,
        changes=sorted(
            [
                *_lives(random.Random(f"lives/{seed}"), seconds, upstream),
                *_revisions_of_watched(random.Random(f"rereads/{seed}"), seconds),
                *_knowledge_bases(random.Random(f"kbs/{seed}"), seconds),
                *changes_of_entries(random.Random(f"entries/{seed}"), seconds, TAGS),
                *changes_of_source(random.Random(f"source/{seed}"), seconds),
            ],
            key=lambda change: change.at_s,
        ),
        process_faults=list(_process_faults(random.Random(f"processes/{seed}"), seconds, replicas)),
        provider_faults=list(_provider_faults(random.Random(f"provider/{seed}"), seconds)),
        runner_kills=list(kills_of_runner(random.Random(f"runner/{seed}"), seconds)),
    )


def _lives(dice: random.Random, seconds: float, upstream: Upstream) -> Iterator[Deliver | SendMalformed]:
    for number in range(max(6, int(seconds * _DOCUMENTS_A_SECOND))):
        document_id = f"d-{number:03}"
        events = list(_life(dice, document_id, upstream))
        times = sorted(dice.uniform(0, seconds) for _ in events)
        yield from _delivered(dice, seconds, list(zip(times, events, strict=True)))
        if dice.random() < 0.3:
            yield SendMalformed(dice.uniform(0, seconds), document_id, f"not JSON, for {document_id}".encode())


def _life(dice: random.Random, document_id: str, upstream: Upstream) -> Iterator[DocumentEvent]:
    """One document from its first event to its last."""
    serial = count()

    def new(number: int) -> list[str]:
        return [paragraph(f"{document_id} {next(serial)}") for _ in range(number)]

    text = new(dice.randint(1, 5))
    for revision in range(1, dice.randint(2, 7)):
        match dice.choices(["read", "tagged", "described", "deleted"], [4, 2, 1, 1])[0] if revision > 1 else "read":
            case "tagged":
                yield upstream.tagged(document_id, *_some_tags(dice), revision=revision)
            case "described":
                yield upstream.described(document_id, {"stage": revision}, revision=revision)
            case "deleted":
                yield upstream.deleted(document_id, revision=revision)
            case _:
                text = _edited(dice, text, new)
                yield upstream.ocr(document_id, text, tags=_some_tags(dice), revision=revision)


def _edited(dice: random.Random, text: list[str], new: Any) -> list[str]:
    """Paragraphs put in and taken out; sometimes one of them twice."""
    kept = [each for each in text if dice.random() < 0.8]
    for each in new(dice.randint(0, 2)):
        kept.insert(dice.randint(0, len(kept)), each)
    if kept and dice.random() < 0.2:
        kept.append(dice.choice(kept))
    return kept or new(1)


def _some_tags(dice: random.Random) -> list[str]:
    return [tag for tag in TAGS if dice.random() < 0.5]


def _delivered(dice: random.Random, seconds: float, events: Sequence[tuple[float, DocumentEvent]]) -> Iterator[Deliver]:
    """As a careless upstream delivers: late, twice, and now and then its whole past again."""
    for at_s, event in events:
        late_s = dice.uniform(0.1, seconds / 4) if dice.random() < _LATE else 0
        yield Deliver(min(at_s + late_s, seconds), event)
        if dice.random() < _TWICE:
            yield Deliver(dice.uniform(at_s, seconds), event)
    if dice.random() < 0.1:
        replayed_at_s = dice.uniform(0, seconds)
        yield from (Deliver(replayed_at_s, event) for at_s, event in events if at_s <= replayed_at_s)


def _revisions_of_watched(dice: random.Random, seconds: float) -> Iterator[ReviseWatched]:
    fast, slow, _ = WATCHED
    for document_id, pause_s in ((fast, 0.4), (slow, 2.5)):
        at_s = dice.uniform(0, pause_s)
        while at_s < seconds:
            yield ReviseWatched(at_s, document_id, replay=dice.random() < 0.15)
            at_s += dice.uniform(0.5, 1.5) * pause_s


def _knowledge_bases(dice: random.Random, seconds: float) -> Iterator[Create | Retag | Drop]:
    at_s = dice.uniform(0, 2)
    there: list[str] = []
    for number in count():
        if at_s >= seconds:
            return
        match dice.choice(["create", "retag", "retag read", "drop"]) if there else "create":
            case "create":
                there.append(f"kb-{number}")
                yield Create(at_s, there[-1], _one_or_more_tags(dice))
            case "retag":
                yield Retag(at_s, dice.choice(there), _one_or_more_tags(dice))
            case "drop":
                yield Drop(at_s, there.pop(dice.randrange(len(there))))
            case _:
                yield Retag(at_s, READ, tuple(sorted({WATCHED_TAG, *_some_tags(dice)})))
        at_s += dice.uniform(0.3, 2.5)


def _one_or_more_tags(dice: random.Random) -> tuple[str, ...]:
    return tuple(sorted(dice.sample(TAGS, dice.randint(1, 2))))


def _process_faults(dice: random.Random, seconds: float, replicas: int) -> Iterator[ProcessFault]:
    # Takes as long as the rest together, so only once, and where there is time for it.
    restart_at_s = dice.uniform(4, seconds - 4) if seconds >= 12 and dice.random() < 0.3 else None
    at_s = dice.uniform(0.3, 1.5)
    while at_s < seconds - 1:
        if restart_at_s is not None and restart_at_s <= at_s:
            restart_at_s, until_s = None, at_s
            yield RestartBroker(at_s, until_s)
        else:
            until_s = min(at_s + dice.uniform(0.3, 4), seconds)
            yield _process_fault(dice, at_s, until_s, dice.randrange(replicas))
        at_s = until_s + dice.uniform(0.2, 2)


def _process_fault(dice: random.Random, at_s: float, until_s: float, replica: int) -> ProcessFault:
    match dice.choices(["kill", "kill at", "freeze", "join"], [2, 4, 2, 1])[0]:
        case "kill":
            return Kill(at_s, until_s, replica)
        case "freeze":
            return Freeze(at_s, until_s, replica)
        case "join":
            return Join(at_s, until_s)
        case _:
            name = dice.choice(_FAILPOINTS if dice.random() < 0.8 else _RARER_FAILPOINTS)
            return KillAt(at_s, until_s, replica, name, dice.randint(1, 3))


def _provider_faults(dice: random.Random, seconds: float) -> Iterator[Misbehave]:
    at_s = dice.uniform(0.5, seconds / 2)
    while at_s < seconds - 1:
        until_s = min(at_s + dice.uniform(0.5, 3), seconds)
        yield Misbehave(at_s, until_s, {"faults": [_provider_fault(dice)], "seed": dice.randrange(1000)})
        at_s = until_s + dice.uniform(0.5, seconds / 3)


def _provider_fault(dice: random.Random) -> dict[str, Any]:
    match dice.choice(["outage", "limited", "short", "wrong_dimension", "nan", "shuffled", "not_json", "hang"]):
        case "outage":
            return {"status": dice.choice([500, 502, 503]), "probability": dice.choice([0.5, 1.0])}
        case "limited":
            return {"status": 429, "retry_after_s": dice.choice([0.5, 1, 2]), "probability": 0.7}
        case "hang":
            return {"kind": "hang", "hang_s": dice.choice([0.5, 2.0]), "probability": 0.5}
        case kind:
            # A bad answer uses up an attempt, of which a document has three.
            return {"kind": kind, "times": 1, "probability": 0.5}
