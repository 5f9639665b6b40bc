import torch


def reference(q, k, v):
    q, k, v = (x.float().transpose(1, 2) for x in (q, k, v))
    scores = torch.tril(q @ k.mT) * q.shape[-1] ** -0.5
    return (scores @ v).transpose(1, 2).half()


def get_inputs():
    return [torch.randn(1, 128, 2, 64).half() for _ in range(3)]
