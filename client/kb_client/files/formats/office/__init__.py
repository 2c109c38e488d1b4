"""Word, PowerPoint and Excel (Office Open XML)."""
