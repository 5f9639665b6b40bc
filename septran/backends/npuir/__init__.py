"""TileLang for Ascend NPU IR."""
