"""What breaks around a queue, broken on purpose: nothing may be lost or done twice."""
