"""The check of a Redis store (`kue doctor`): rules in tables, and their repairs."""
