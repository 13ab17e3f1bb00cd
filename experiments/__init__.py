"""What was measured on real corpora: grids, kept results, and the tables and pictures made from them."""
