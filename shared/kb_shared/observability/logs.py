"""Configures structured logs: one JSON line per outcome, ids bound once per message, never texts, vectors or keys."""

import logging
import sys
from typing import TextIO, cast

import stamina.instrumentation
import structlog

from kb_shared.observability import tracing
from kb_shared.observability.log_limit import RepetitionFilter
from kb_shared.observability.log_stream import LogStream


def configure(service: str, level: str = "INFO") -> None:
    """Send structlog and the standard library's loggers to stderr as JSON lines."""
    stream = LogStream(sys.stderr)
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        _add_trace,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[
            *shared,
            _exception_type_only,
            structlog.processors.JSONRenderer(ensure_ascii=False),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.WriteLoggerFactory(file=cast("TextIO", stream)),
        cache_logger_on_first_use=True,
    )
    structlog.contextvars.bind_contextvars(service=service)
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                _exception_type_only,
                structlog.processors.JSONRenderer(ensure_ascii=False),
            ],
        )
    )
    # It logs a missing broker or topic hundreds of times a second.
    handler.addFilter(RepetitionFilter("aiokafka"))
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    # Its own structlog hook logs the arguments of retried calls: texts and keys.
    stamina.instrumentation.set_on_retry_hooks([])


def _add_trace(_logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    event.update(tracing.log_fields())
    return event


def _exception_type_only(
    _logger: object, _method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Replace a traceback by the frames of our own code and the type: a message may quote a document."""
    error = event.pop("exc_info", None)
    if error is True:
        error = sys.exc_info()[1]
    elif isinstance(error, tuple):
        # Form of the standard library's loggers.
        error = error[1]
    if isinstance(error, BaseException):
        event["error"] = type(error).__name__
        event["at"] = _frames(error)
    return event


def _frames(error: BaseException) -> list[str]:
    frames = []
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        frames.append(f"{code.co_filename.rsplit('/', 2)[-1]}:{trace.tb_lineno} {code.co_name}")
        trace = trace.tb_next
    return frames[-6:]
