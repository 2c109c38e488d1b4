from kb_shared.settings import CommonSettings


class ReconcilerSettings(CommonSettings):
    reconcile_interval_s: float = 60.0
    """Time from the end of a pass to the beginning of the next."""
    chunk_count_interval_s: float = 3_600.0
    """Time between passes that count every chunk."""
    text_sweep_interval_s: float = 3_600.0
    """Time between searches for texts that no document refers to."""
