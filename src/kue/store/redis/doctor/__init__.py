"""How `check` proves a shard sound: survey, facts, diagnosis, mending."""
