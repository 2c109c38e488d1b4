def log_what_must_not_be_logged(log, key, document, settings, error):
    # ruleid: secret-or-text-in-log
    log.info("key.created", api_key=key)
    # ruleid: secret-or-text-in-log
    log.warning("document.rejected", document_id=document.id, text=document.text)
    # ruleid: secret-or-text-in-log
    log.debug("search.started", query=document.query)
    # ruleid: secret-or-text-in-log
    log.info("service.started", pepper_length=len(settings.pepper.get_secret_value()))
    # ruleid: secret-or-text-in-log
    log.error(f"document {document.text} failed")


def log_ids_sizes_and_classes(log, key, document, error):
    # ok: secret-or-text-in-log
    log.info("key.created", key_id=key.key_id)
    # ok: secret-or-text-in-log
    log.warning("document.rejected", document_id=document.id, text_bytes=len(document.text))
    # ok: secret-or-text-in-log
    log.error("document.failed", error=type(error).__name__)


def is_right(secret, hmac, expected, compare_digest):
    # ruleid: secret-compared-with-equals
    if secret == expected:
        return True
    # ruleid: secret-compared-with-equals
    if hmac != expected:
        return False
    # ok: secret-compared-with-equals
    return compare_digest(hmac, expected)
