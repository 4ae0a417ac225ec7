"""The APIs of Kue's two ancestors, for programs that speak to those."""
