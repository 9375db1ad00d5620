"""Networks of other programs: torch modules, TorchScript and ONNX files."""
