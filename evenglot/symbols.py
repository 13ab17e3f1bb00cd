"""Ids of the special symbols, the same in every vocabulary because exported models share them across both sides."""

EOS, UNK, PAD = 0, 1, 2  # </s>, <unk>, <pad>
