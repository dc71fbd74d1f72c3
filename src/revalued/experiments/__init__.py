"""The paper's tables and figures as experiments: what to run or compute, and where its numbers go."""
