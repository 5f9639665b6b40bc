import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, num_classes=10):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, kernel_size=11, stride=4, padding=2)
        self.relu1 = nn.ReLU(inplace=True)
        self.maxpool1 = nn.MaxPool2d(kernel_size=3, stride=2)
        self.conv2 = nn.Conv2d(8, 12, kernel_size=5, padding=2)
        self.relu2 = nn.ReLU(inplace=True)
        self.maxpool2 = nn.MaxPool2d(kernel_size=3, stride=2)
        self.fc1 = nn.Linear(12 * 2 * 2, 20)
        self.dropout1 = nn.Dropout(p=0.0)
        self.fc3 = nn.Linear(20, num_classes)

    def forward(self, x):
        x = self.maxpool1(self.relu1(self.conv1(x)))
        x = self.maxpool2(self.relu2(self.conv2(x)))
        x = torch.flatten(x, 1)
        return self.fc3(self.dropout1(torch.relu_(self.fc1(x))))


def get_inputs():
    return [torch.rand(2, 3, 48, 48)]


def get_init_inputs():
    return [10]
