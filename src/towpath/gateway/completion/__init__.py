"""The end of an upload: stages pass it, closing steps run, results are complete."""
