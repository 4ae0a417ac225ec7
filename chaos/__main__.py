"""``python -m chaos``."""

from chaos.command import main

main(prog_name="python -m chaos")
