"""Adds to Tansu what brokers of Kafka do: fetches wait for records, and newer clients learn what versions it knows."""
