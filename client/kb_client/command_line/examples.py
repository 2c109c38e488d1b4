def examples(*commands: str) -> str:
    """Return the end of the help of a command: lines that a person can copy."""
    # "\b" keeps the lines as they are.
    return "\n".join(("\b", "Examples:" if len(commands) > 1 else "Example:", *(f"  {each}" for each in commands)))
