from collections.abc import Mapping

from kb_contracts.topics import Topic


class MessageLimits:
    """The largest record that can be sent to each topic, in bytes: what the contract says, or less if brokers do."""

    def __init__(self) -> None:
        self._learnt: dict[str, int] = {}

    def learn(self, max_message_bytes: Mapping[str, int]) -> None:
        """Remember what the brokers say of topics, by their names without the prefix of the deployment."""
        self._learnt |= max_message_bytes

    def get_limit(self, topic: Topic) -> int:
        # Where the brokers take more, our producers still send no more than this.
        return min(topic.max_message_bytes, self._learnt.get(topic.name, topic.max_message_bytes))
