# SPDX-License-Identifier: Apache-2.0
"""A recommender: from 7,000 ratings it learns what 200 people would say of 120 films, by matrix factorization.

    python examples/python/recommend_films.py

A rating is the mean, a bias of the user, a bias of the film, and the product of what both have in their embeddings (Koren, Bell
and Volinsky, 2009). Only the embeddings decay: the optimizer has two groups of parameters. `samba.fit` takes models of several
inputs; the last tensor of a batch is the target.
"""

import torch

import sambaflow.samba as samba

USERS, FILMS, KNOWN, TEST = 200, 120, 7000, 1000


class Factors(torch.nn.Module):
    def __init__(self, mean, width=12):
        super().__init__()
        self.user, self.film = torch.nn.Embedding(USERS, width), torch.nn.Embedding(FILMS, width)
        self.user_bias, self.film_bias = torch.nn.Embedding(USERS, 1), torch.nn.Embedding(FILMS, 1)
        self.register_buffer("mean", torch.tensor(mean))
        for table in (self.user, self.film):
            torch.nn.init.normal_(table.weight, std=0.1)
        for table in (self.user_bias, self.film_bias):
            torch.nn.init.zeros_(table.weight)

    def forward(self, user, film):
        agreement = (self.user(user) * self.film(film)).sum(-1)
        return self.mean + agreement + self.user_bias(user).squeeze(-1) + self.film_bias(film).squeeze(-1)


torch.manual_seed(1)
likes, shows = torch.randn(USERS, 6), torch.randn(FILMS, 6)
truth = 3.5 + 0.5 * torch.randn(USERS, 1) + 0.5 * torch.randn(FILMS) + 0.35 * likes @ shows.T
pair = torch.randperm(USERS * FILMS)[: KNOWN + TEST]
user, film = pair // FILMS, pair % FILMS
rating = truth[user, film] + 0.3 * torch.randn(KNOWN + TEST)
data = torch.utils.data.TensorDataset(user, film, rating)
train, test = torch.utils.data.Subset(data, range(KNOWN)), torch.utils.data.Subset(data, range(KNOWN, KNOWN + TEST))

model = Factors(rating[:KNOWN].mean().item())
tables, biases = [model.user.weight, model.film.weight], [model.user_bias.weight, model.film_bias.weight]
optim = torch.optim.AdamW([{"params": tables, "weight_decay": 1.0}, {"params": biases, "weight_decay": 0.0}], lr=0.01)
history = samba.fit(
    model,
    torch.utils.data.DataLoader(train, batch_size=100, shuffle=True),
    optim,
    torch.nn.functional.mse_loss,
    epochs=14,
    validation=torch.utils.data.DataLoader(test, batch_size=500),
    metrics=["rmse"],
    progress=False,
)
error, spread = history.rows[-1]["validation"]["rmse"], rating[KNOWN:].std().item()
print(f"root mean square error of {TEST} ratings that it has not seen: {error:.3f}; of saying the mean: {spread:.3f}")

# What somebody should see next: the films that the model rates best among those without a rating.
with torch.no_grad():
    guess = model(torch.zeros(FILMS, dtype=torch.int64), torch.arange(FILMS))
guess[film[:KNOWN][user[:KNOWN] == 0]] = -torch.inf
best = guess.topk(5).indices
print("for user 0:", ", ".join(f"film {i} ({truth[0, i]:.1f})" for i in best.tolist()))
assert error < 0.85 and truth[0, best].mean() > truth[0].mean()
