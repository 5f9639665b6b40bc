import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, input_size, hidden_size, num_layers=2, bias=True, batch_first=False):
        super().__init__()
        self.gru = nn.GRU(
            input_size, hidden_size, num_layers, bias, batch_first, dropout=0, bidirectional=True
        )
        self.h0 = torch.randn((num_layers * 2, 3, hidden_size))

    def forward(self, x):
        self.h0 = self.h0.to(x.device)
        output, h_n = self.gru(x, self.h0)
        return output


def get_inputs():
    return [torch.randn(6, 3, 5)]


def get_init_inputs():
    return [5, 4]
