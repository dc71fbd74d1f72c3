"""Many environments that step side by side, in this process or in workers."""
