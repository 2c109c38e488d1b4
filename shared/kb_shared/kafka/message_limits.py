from collections.abc import Mapping

from kb_shared.contracts.topics import Topic


class MessageLimits:
    """The largest record that each topic takes, in bytes: as the contract says until the brokers have been asked."""

    def __init__(self) -> None:
        self._learnt: dict[str, int] = {}

    def learn(self, max_message_bytes: Mapping[str, int]) -> None:
        """Remember what the brokers say of topics, by their names without the prefix of the deployment."""
        self._learnt |= max_message_bytes

    def of(self, topic: Topic) -> int:
        return self._learnt.get(topic.name, topic.max_message_bytes)
