"""Passes of Ascend NPU IR alone."""
