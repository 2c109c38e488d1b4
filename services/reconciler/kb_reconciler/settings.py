from kb_shared.settings import CommonSettings


class ReconcilerSettings(CommonSettings):
    reconcile_interval_s: float = 60.0
    """From the end of a pass to the beginning of the next."""
    chunk_count_interval_s: float = 3_600.0
    """Between passes that count every chunk."""
    text_sweep_interval_s: float = 3_600.0
    """Between looks for texts that no document refers to any more."""
