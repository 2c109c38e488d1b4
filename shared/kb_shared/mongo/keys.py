"""Keys of documents, KBs, documents in KBs, tags and agents: one argument in place of ids that follow each other.

Each contains the organization, because every query on tenant data names it.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KnowledgeBaseKey:
    """Identifies a KB."""

    organization_id: str
    kb_id: str


@dataclass(frozen=True, slots=True)
class DocumentKey:
    """Identifies a document."""

    organization_id: str
    document_id: str


@dataclass(frozen=True, slots=True)
class MembershipKey:
    """Identifies a document in a KB, also where nothing of it is indexed there."""

    organization_id: str
    kb_id: str
    document_id: str

    @property
    def document(self) -> DocumentKey:
        return DocumentKey(self.organization_id, self.document_id)

    @property
    def knowledge_base(self) -> KnowledgeBaseKey:
        return KnowledgeBaseKey(self.organization_id, self.kb_id)


@dataclass(frozen=True, slots=True)
class TagKey:
    """Identifies a tag."""

    organization_id: str
    tag_id: str


@dataclass(frozen=True, slots=True)
class AgentKey:
    """Identifies an agent."""

    organization_id: str
    agent_id: str
