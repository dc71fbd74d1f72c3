"""The same problem for us and for what people would use instead: who takes part, the runs, tables and pictures."""
