import torch
import torch.nn as nn
import torch.nn.functional as F


class DenseBlock(nn.Module):
    def __init__(self, num_layers, num_input_features, growth_rate):
        super().__init__()
        self.layers = nn.ModuleList(
            [
                self._make_layer(num_input_features + i * growth_rate, growth_rate)
                for i in range(num_layers)
            ]
        )

    def _make_layer(self, cin, growth):
        return nn.Sequential(
            nn.BatchNorm2d(cin),
            nn.ReLU(inplace=True),
            nn.Conv2d(cin, growth, 3, padding=1, bias=False),
            nn.Dropout(0.0),
        )

    def forward(self, x):
        features = [x]
        for layer in self.layers:
            features.append(layer(x))
            x = torch.cat(features, 1)
        return x


class TransitionLayer(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.transition = nn.Sequential(
            nn.BatchNorm2d(cin),
            nn.ReLU(inplace=True),
            nn.Conv2d(cin, cout, 1, bias=False),
            nn.AvgPool2d(2, 2),
        )

    def forward(self, x):
        return self.transition(x)


class Model(nn.Module):
    def __init__(self, growth_rate=4, num_classes=5):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 7, 2, 3, bias=False),
            nn.BatchNorm2d(8),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, 2, 1),
        )
        self.dense_blocks, self.transition_layers = nn.ModuleList(), nn.ModuleList()
        n = 8
        for i in range(2):
            self.dense_blocks.append(DenseBlock(3, n, growth_rate))
            n += 3 * growth_rate
            if i == 0:
                self.transition_layers.append(TransitionLayer(n, n // 2))
                n //= 2
        self.final_bn = nn.BatchNorm2d(n)
        self.classifier = nn.Linear(n, num_classes)

    def forward(self, x):
        x = self.features(x)
        for i, block in enumerate(self.dense_blocks):
            x = block(x)
            if i != len(self.dense_blocks) - 1:
                x = self.transition_layers[i](x)
        x = F.relu(self.final_bn(x), inplace=True)
        x = F.adaptive_avg_pool2d(x, (1, 1)).view(x.size(0), -1)
        return self.classifier(x)


def get_inputs():
    return [torch.rand(1, 3, 32, 32)]


def get_init_inputs():
    return [4, 5]
