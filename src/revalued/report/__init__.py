"""Statistics, figures and verdicts on the paper's claims, made only from the files that experiments leave on disk."""
