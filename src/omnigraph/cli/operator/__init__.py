"""The files of the person at the command line: `config.yaml` and `credentials`."""
