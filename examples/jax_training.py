"""Train a small network on MNIST with JAX, Flax and Optax: recognised, named, and not judged."""

import argparse

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.training import train_state


class Network(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.Conv(32, (3, 3))(x))
        x = nn.avg_pool(x, (2, 2), strides=(2, 2))
        x = nn.relu(nn.Conv(64, (3, 3))(x))
        x = x.reshape((x.shape[0], -1))
        x = nn.relu(nn.Dense(256)(x))
        return nn.Dense(10)(x)


@jax.jit
def train_step(state, images, labels):
    def objective(params):
        logits = state.apply_fn({"params": params}, images)
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

    loss, gradients = jax.value_and_grad(objective)(state.params)
    return state.apply_gradients(grads=gradients), loss


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="mnist.npz")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=128)
    args = parser.parse_args()

    with np.load(args.data) as file:
        images = file["x_train"][..., None].astype(np.float32) / 255.0
        labels = file["y_train"].astype(np.int32)

    network = Network()
    params = network.init(jax.random.PRNGKey(0), jnp.ones((1, 28, 28, 1)))["params"]
    state = train_state.TrainState.create(apply_fn=network.apply, params=params, tx=optax.adam(1e-3))

    generator = np.random.default_rng(0)
    for epoch in range(args.epochs):
        order = generator.permutation(len(images))
        for start in range(0, len(order) - args.batch_size + 1, args.batch_size):
            rows = order[start : start + args.batch_size]
            state, loss = train_step(state, images[rows], labels[rows])
        print(f"epoch {epoch}: loss {float(loss):.3f}")


if __name__ == "__main__":
    main()
