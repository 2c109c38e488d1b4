"""Holds what stands between the records of Kafka and the use cases.

How many are in work at once, who may work on a job, which documents are handled alone, which lane a command takes, and
whether the key of a record is that of its data. The consumer itself is `kb_shared.kafka.consumer`.
"""
