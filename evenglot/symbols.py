"""Ids of the special symbols: the same in every vocabulary, so that source and target can be exported together."""

EOS, UNK, PAD = 0, 1, 2  # </s>, <unk>, <pad>
