"""What a printer of kernel text needs; knows no target."""
