import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(
        self,
        num_classes,
        embed_dim=12,
        num_heads=3,
        num_layers=1,
        mlp_ratio=2.0,
        patch_size=4,
        in_channels=3,
        image_size=8,
    ):
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, embed_dim, kernel_size=patch_size, stride=patch_size)
        self.flatten = nn.Flatten()
        self.linear_proj = nn.Linear(embed_dim * (image_size // patch_size) ** 2, embed_dim)
        self.layers = nn.ModuleList(
            [
                nn.TransformerEncoderLayer(
                    d_model=embed_dim,
                    nhead=num_heads,
                    dim_feedforward=int(embed_dim * mlp_ratio),
                    dropout=0.0,
                    batch_first=True,
                )
                for _ in range(num_layers)
            ]
        )
        self.cls_token = nn.Parameter(torch.zeros(1, 1, embed_dim))
        self.fc_out = nn.Linear(embed_dim, num_classes)

    def forward(self, x):
        B = x.size(0)
        x = self.flatten(self.conv1(x))
        x = self.linear_proj(x)
        x = torch.cat((self.cls_token.expand(B, -1, -1), x.unsqueeze(1)), dim=1)
        for layer in self.layers:
            x = layer(x)
        return self.fc_out(x[:, 0])


def get_inputs():
    return [torch.rand(2, 3, 8, 8)]


def get_init_inputs():
    return [5]
