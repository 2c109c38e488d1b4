"""Keys of runs, threads and prompts: one argument in place of ids that follow each other."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RunKey:
    """Identifies a run."""

    organization_id: str
    run_id: str


@dataclass(frozen=True, slots=True)
class ThreadKey:
    """Identifies a thread."""

    organization_id: str
    thread_id: str


@dataclass(frozen=True, slots=True)
class PromptKey:
    """Identifies a prompt."""

    organization_id: str
    prompt_id: str
