"""Errors of backups and restores. Each message says what to do."""


class BackupRefused(Exception):
    """Backup or restore that can't be done as asked, or not now."""


class DamagedBackup(BackupRefused):
    """File of a backup that is missing, truncated or altered."""
