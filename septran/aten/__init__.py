"""Exported torch graphs: frozen nodes, their text, and the allow-listed evaluator that gives them their meaning."""
