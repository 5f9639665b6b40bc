"""From a torch module to Task Lang text: capture, graph, table, simplify, group, write, reference."""
