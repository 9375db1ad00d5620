"""Readers of networks from other programs: torch modules, TorchScript and ONNX files."""
