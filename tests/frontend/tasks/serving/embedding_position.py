import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, vocab, hidden, max_pos):
        super().__init__()
        self.word = nn.Embedding(vocab, hidden, padding_idx=0)
        self.pos = nn.Embedding(max_pos, hidden)
        self.kind = nn.Embedding(2, hidden)
        self.norm = nn.LayerNorm(hidden, eps=1e-12)
        self.register_buffer(
            "position_ids", torch.arange(max_pos).expand((1, -1)), persistent=False
        )

    def forward(self, input_ids, token_type_ids):
        e = self.word(input_ids) + self.kind(token_type_ids)
        e = e + self.pos(self.position_ids[:, : input_ids.shape[1]])
        return self.norm(e)


def get_inputs():
    return [torch.randint(0, 20, (2, 6)), torch.zeros(2, 6, dtype=torch.long)]


def get_init_inputs():
    return [20, 12, 10]
