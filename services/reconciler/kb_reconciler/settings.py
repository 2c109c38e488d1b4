from kb_shared.settings import CommonSettings


class ReconcilerSettings(CommonSettings):
    reconcile_interval_s: float = 60.0
    """Time from the end of a pass to the beginning of the next."""
    reconcile_full_interval_s: float = 86_400.0
    """Time between full passes, which compare every document and chunk. The other passes are incremental."""
    reconcile_grace_s: float = 60.0
    """Age below which a change of a document is left alone: its events may be on their way."""
    text_sweep_interval_s: float = 3_600.0
    """Time between searches for texts that no document refers to."""
