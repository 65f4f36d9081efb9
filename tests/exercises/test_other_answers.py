"""Right answers in another style pass: loops over positions, einsum, torch converted back."""

import itertools
import math

import numpy as np
import pytest
import torch

from mha import cost
from mha.exercises import check, registry


def previous_token_score(weights):
    n = weights.shape[-1]
    return sum(weights[..., i, i - 1] for i in range(1, n)) / (n - 1)


def sink_score(weights):
    return weights[..., 0].sum(-1) / (weights.shape[-1] - 1) - weights[..., 0, 0] / (weights.shape[-1] - 1)


def induction_score(weights, period):
    n = weights.shape[-1]
    return np.stack([weights[..., i, i - period + 1] for i in range(period, n)]).mean(0)


def attention_distance(weights):
    n = weights.shape[-1]
    return sum(abs(i - j) * weights[..., i, j] for i in range(n) for j in range(n)) / n


def looks_ahead(layer, x, t):
    other = np.concatenate([x[:t], x[t:] + 1 + np.arange(x[t:].size).reshape(x[t:].shape)])
    return not np.isclose(layer(other)[:t], layer(x)[:t]).all()


def additive_scores(q, k, w_q, w_k, v):
    return np.array([[sum(v * np.tanh(w_q.T @ state + w_k.T @ row)) for row in k] for state in q])


def context_vectors(scores, values, keep):
    shares = torch.softmax(torch.from_numpy(scores).masked_fill(~torch.from_numpy(keep), -torch.inf), -1)
    return (shares @ torch.from_numpy(values)).numpy()


def local_weights(scores, centers, window):
    weights = np.zeros(scores.shape)
    for i, p in enumerate(centers):
        near = [j for j in range(scores.shape[1]) if p - window <= j <= p + window]
        total = sum(math.exp(scores[i, j]) for j in near)
        for j in near:
            weights[i, j] = math.exp(scores[i, j] - (j - p) ** 2 / (2 * (window / 2) ** 2)) / total
    return weights


def next_context(state, memory, keys, w_q, v):
    scores = np.einsum("a,ja->j", v, np.tanh(np.einsum("d,da->a", state, w_q) + keys))
    return np.einsum("j,jc->c", softmax(scores), memory)


def softmax(scores):
    return np.exp(scores - np.logaddexp.reduce(scores, axis=-1, keepdims=True))


def attention_weights(q, k):
    return torch.softmax(
        torch.einsum("...id,...jd->...ij", *map(torch.tensor, (q, k))) * q.shape[-1] ** -0.5, -1
    ).numpy()


def causal_mask(n_q, n_k):
    return np.array([[j <= i + n_k - n_q for j in range(n_k)] for i in range(n_q)])


def attention(q, k, v, mask):
    output = np.zeros((*q.shape[:-1], v.shape[-1]))
    for i, visible in enumerate(mask):
        if visible.any():
            scores = np.einsum("...d,...jd->...j", q[..., i, :], k[..., visible, :]) / math.sqrt(q.shape[-1])
            output[..., i, :] = np.einsum("...j,...je->...e", softmax(scores), v[..., visible, :])
    return output


def coldest_weights(scores):
    best = np.isclose(scores, np.max(scores, axis=-1)[..., None]) * 1.0
    return best / np.sum(best, axis=-1)[..., None]


def softmax_backward(weights, d_weights):
    jacobian = (
        np.einsum("...j,jl->...jl", weights, np.eye(weights.shape[-1])) - weights[..., :, None] * weights[..., None, :]
    )
    return np.einsum("...jl,...j->...l", jacobian, d_weights)


def split_heads(x, num_heads):
    return np.stack(np.split(x, num_heads, axis=-1), axis=1)


def join_heads(x):
    return np.concatenate(list(x.swapaxes(0, 1)), axis=-1)


def multi_head_attention(x, w_q, w_k, w_v, w_o, num_heads):
    d = x.shape[-1] // num_heads
    output = 0.0
    for block in (slice(h * d, (h + 1) * d) for h in range(num_heads)):
        scores = (x @ w_q[:, block]) @ (x @ w_k[:, block]).swapaxes(1, 2) / math.sqrt(d)
        output = output + softmax(scores) @ (x @ w_v[:, block]) @ w_o[block]
    return output


def head_contributions(heads, w_o):
    d = heads.shape[-1]
    return np.stack([heads[:, h] @ w_o[h * d : (h + 1) * d] for h in range(heads.shape[1])], axis=1)


def reorder_output_rows(w_o, order):
    return np.concatenate([np.split(w_o, len(order))[head] for head in order])


def soft_lookup(queries, keys, values, temperature):
    scores = torch.einsum("id,jd->ij", torch.tensor(queries), torch.tensor(keys)) / temperature
    return (torch.softmax(scores, 1) @ torch.tensor(values)).numpy()


def self_attention(x, w_q, w_k, w_v):
    return np.stack([cross_attention(x[i : i + 1], x, w_q, w_k, w_v)[0] for i in range(len(x))])


def cross_attention(x, context, w_q, w_k, w_v):
    scores = x @ (w_q @ w_k.T) @ context.T * w_q.shape[1] ** -0.5
    return np.einsum("ij,jc,ce->ie", softmax(scores), context, w_v)


def put_back(output, order):
    found = np.empty_like(output)
    found[order] = output
    return found


def softmax_jacobian(weights):
    n = len(weights)
    return np.array([[weights[j] * ((j == m) - weights[m]) for m in range(n)] for j in range(n)])


def query_gradient(q, k, v, d_output):
    leaf, *others = torch.tensor(q, requires_grad=True), *map(torch.tensor, (k, v))
    output = torch.nn.functional.scaled_dot_product_attention(leaf, *others)
    return torch.autograd.grad(output, leaf, torch.tensor(d_output))[0].numpy()


def weights_again(q, k, lse):
    exponentials = np.exp(np.einsum("id,jd->ij", q, k) * q.shape[1] ** -0.5)
    return exponentials / np.exp(lse)[:, None]


def causal_flops(n, d_head):
    return (np.cumsum(np.arange(n.max() + 1)) * 4.0 * d_head)[n]


def composed_bytes(n, num_heads, d_head, itemsize):
    wide, square = num_heads * n * d_head, num_heads * n**2
    scores, softmax, mix = 2 * wide + square, square + square, square + wide + wide
    return (scores + softmax + mix) * itemsize


def least_seconds(flops, nbytes, peak, bandwidth):
    return flops / np.minimum(peak, flops / nbytes * bandwidth)


def equal_length(num_kv_heads, num_heads, d_model, batch):
    query_and_output, key_and_value = 2 * d_model * num_heads, 2 * d_model * num_kv_heads
    kept_of_a_position = batch * (num_kv_heads + num_kv_heads)
    return (query_and_output + key_and_value) / kept_of_a_position


def pruned_parameters(d_model, d_head, reads):
    query_head = key_head = 2 * d_model * d_head
    return query_head * reads.size + key_head * np.unique(reads).size


def focus_as_divergence(weights):
    """The Kullback–Leibler divergence of each row from even weights, row by row."""
    rows = [weights[i, : i + 1] for i in range(1, len(weights))]
    return np.mean([sum(p * np.log(p * len(row)) for p in row if p > 0) for row in rows])


def norms_by_trace(w_v, w_o, num_heads):
    v, o = w_v.reshape(len(w_v), num_heads, -1), w_o.reshape(num_heads, -1, w_o.shape[1])
    return np.sqrt(np.einsum("mhx,mhy,hxn,hyn->h", v, v, o, o))


def key_heads(num_heads, num_kv_heads):
    return np.array([h // (num_heads // num_kv_heads) for h in range(num_heads)])


def cache_bytes(n, num_layers, num_kv_heads, d_head, itemsize):
    return sum(2 * num_kv_heads * d_head * itemsize * n for _ in range(num_layers))


def decode_step(q, k, v, keys, values):
    tensors = (torch.from_numpy(x)[None] for x in (q[:, None], np.insert(keys, 0, k, 1), np.insert(values, 0, v, 1)))
    return torch.nn.functional.scaled_dot_product_attention(*tensors)[0, :, 0].numpy()


def absorbed_scores(q, w_k, latent):
    return np.stack([(latent @ w) @ one for one, w in zip(q, w_k, strict=True)])


def pooled_heads(w, num_heads, num_kv_heads):
    groups = np.split(w, num_kv_heads, axis=1)
    return np.hstack([sum(np.split(group, num_heads // num_kv_heads, axis=1)) for group in groups]) / (
        num_heads / num_kv_heads
    )


def layer_norm(x, gain, bias, eps):
    width = x.shape[-1]
    deviation = x - np.einsum("nd->n", x)[:, None] / width
    return np.stack([gain * row / math.sqrt(row @ row / width + eps) + bias for row in deviation])


def pre_norm_block(x, attention, feed, attention_norm, feed_norm):
    stream = x.copy()
    for layer, norm in ((attention, attention_norm), (feed, feed_norm)):
        stream += layer(norm(stream))
    return stream


def transformer_block(x, memory, self_attention, cross_attention, feed, norm):
    i, j = np.ogrid[: len(x), : len(x)]
    for layer, others in ((self_attention, [j <= i]), (cross_attention, [memory]), (feed, [])):
        x = norm(layer(x, *others) + x)
    return x


def who_sees_whom(n_source, n_target):
    tokens = range(n_source + n_target)
    return np.array([[key < n_source or (query >= n_source and key <= query) for key in tokens] for query in tokens])


def transformer_parameters(d_model, d_mlp, num_layers, vocab_size):
    with torch.device("meta"):
        sizes = {"num_encoder_layers": num_layers, "num_decoder_layers": num_layers, "dim_feedforward": d_mlp}
        model = torch.nn.Transformer(d_model, 1, batch_first=True, **sizes)
    final_norms = 2 * 2 * d_model  # which PyTorch has in either order
    return sum(p.numel() for p in model.parameters()) - final_norms + vocab_size * d_model


def absorbed_overhead(new):
    """What the absorbed form of DeepSeek-V2 does more than the other, behind a very long text."""
    v2 = cost.published_models()["deepseek-v2"]
    absorbed, made = (
        count(new, v2.d_model, v2.num_heads, v2.latent, cached=10**9)
        for count in (cost.absorbed_flops, cost.latent_flops)
    )
    return absorbed - made


def take_in(top, total, scores):
    lse = np.logaddexp(np.log(total, where=total > 0, out=np.full_like(total, -np.inf)) + top, -np.inf)
    lse = np.logaddexp.reduce(np.column_stack([lse, scores]), axis=1)
    new = np.column_stack([top, scores]).max(1)
    return np.array([new, np.exp(lse - new)])


def causal_tiles(n, bm, bn):
    def count(length):
        needed = {(i // bm, j // bn) for i in range(length) for j in range(0, i + 1, bn)}
        return len(needed)

    return np.array([count(length) for length in n])


def bytes_moved(n, d_head, rows, itemsize):
    return np.array([itemsize * d_head * 2 * x * (1 + len(range(0, x, rows))) + np.float32().nbytes * x for x in n])


def key_gradient(q, k, v, output, lse, d_output):
    q, k, v = (torch.tensor(x, requires_grad=True) for x in (q, k, v))
    torch.nn.functional.scaled_dot_product_attention(q, k, v).backward(torch.tensor(d_output))
    return k.grad.numpy()


def round_fraction(x, bits):
    mantissa, exponent = np.frexp(x)
    return np.ldexp(np.round(np.ldexp(mantissa, bits + 1)), exponent - bits - 1)


def head_scales(x, largest):
    tops = [max(head.max(), -head.min()) for head in x]
    return np.array([largest / top if top else 1.0 for top in tops]).reshape(-1, 1, 1)


def scales(gradients, scale, interval):
    exponents, good = [0], 0
    for row in gradients:
        fits = bool((np.abs(row) * scale * 2.0 ** exponents[-1] <= 65504).all())
        good = good + 1 if fits else 0
        exponents.append(exponents[-1] + (-1 if not fits else good > 0 and good % interval == 0))
    return scale * 2.0 ** np.array(exponents[:-1], dtype=float)


def sum_in_pairs(x, bits):
    if len(x) == 1:
        return x[0]
    left, right = (sum_in_pairs(half, bits) for half in np.split(x, 2))
    return round_fraction(left + right, bits)


def count_tiles(see, rows, columns):
    counts = np.zeros(3, int)
    for i in range(0, see.shape[0], rows):
        for j in range(0, see.shape[1], columns):
            visible = see[i : i + rows, j : j + columns].sum()
            counts[0 if visible == rows * columns else 1 if visible else 2] += 1
    return counts


def merge_parts(outputs, lses):
    together = np.logaddexp.reduce(lses, axis=0)
    return np.einsum("pi,pie->ie", np.exp(lses - together), outputs)


def chunked(q, k, v, chunk):
    before = np.cumsum(np.einsum("nd,ne->nde", k, v), axis=0)
    return np.einsum("nd,nde->ne", q, before)


def read_pages(pages, page_row, length):
    return np.concatenate([pages[page] for page in page_row])[:length]


def corrupt_one_by_one(tokens, chosen, kind, others):
    kept = []
    for token, is_chosen, draw, other in zip(tokens, chosen < 0.15, kind, others, strict=True):
        kept.append(token if not is_chosen or draw >= 0.9 else other if draw >= 0.8 else 0)
    return np.array(kept)


def masked_loss_of_odds(logits, tokens, chosen):
    asked, answers = logits[chosen], tokens[chosen]
    against = [np.exp(row - row[answer]).sum() for row, answer in zip(asked, answers, strict=True)]
    return np.log(against).sum() / len(against)


def outputs_that_may_move(visible, layers, i):
    n = len(visible)
    steps = np.linalg.matrix_power(visible.astype(int) + np.eye(n, dtype=int), layers)
    return steps @ (np.arange(n) == i) > 0


def alibi_slopes(num_heads):
    slopes = [2.0 ** (-8 / num_heads)]
    while len(slopes) < num_heads:
        slopes.append(slopes[-1] * slopes[0])
    return np.array(slopes)


def scores_with_distances(q, k, table):
    limit, (n_q, d) = len(table) // 2, q.shape
    scores = np.zeros((n_q, len(k)))
    for i in range(n_q):
        for j in range(len(k)):
            scores[i, j] = q[i] @ (k[j] + table[max(-limit, min(limit, j - i)) + limit]) / math.sqrt(d)
    return scores


def bucket(back, num_buckets, max_distance):
    half = num_buckets // 2
    begins = half * (max_distance / half) ** (np.arange(num_buckets - half) / (num_buckets - half))
    begins = np.concatenate([np.arange(half), begins * (1 - 1e-12)])
    return np.searchsorted(begins, back, side="right") - 1


def pairs_from_distances(x):
    n = len(x)
    return np.array([x[i, n - 1 - i : 2 * n - 1 - i] for i in range(n)])


def sinusoidal(positions, d_model):
    flat = [[np.exp(1j * p / 10000 ** (2 * c / d_model)) for c in range(d_model // 2)] for p in positions.ravel()]
    pairs = np.array([[[turn.imag, turn.real] for turn in row] for row in flat])
    return pairs.reshape(*positions.shape, d_model)


def shift_matrix(distance, d_model):
    blocks = [np.array([[0.0, -1.0], [1.0, 0.0]]) * distance / 10000 ** (2 * c / d_model) for c in range(d_model // 2)]
    return torch.block_diag(*(torch.linalg.matrix_exp(torch.tensor(block)) for block in blocks)).numpy()


def positions_of(keep):
    return np.array([[max(slot - int(row.argmax()), 0) for slot in range(len(row))] for row in keep])


def sinusoidal_2d(rows, columns, d_model):
    return np.block([sinusoidal(rows, d_model // 2), sinusoidal(columns, d_model // 2)])


def averages(q, k, v):
    with_ones = np.column_stack([v, np.ones(len(v))])
    both = np.einsum("im,me->ie", q, sum(np.outer(x, y) for x, y in zip(k, with_ones, strict=True)))
    return both[:, :-1] / both[:, -1:]


def features(x, directions):
    return np.array([[math.exp(w @ row - row @ row / 2) for w in directions] for row in x]) * len(directions) ** -0.5


def corrected(state, k, v, beta):
    return (np.eye(len(k)) - beta * np.outer(k, k)) @ state + beta * k[:, None] * v


def strided_keys(i, step):
    return np.array(sorted({*range(max(0, i - step), i + 1), *range(i, -1, -step)}))


def window_pairs(n, left):
    return sum(min(i, left) + 1 for i in range(n))


def layers_to_all(see):
    power = see.astype(float)
    return next(t for t in range(1, 100) if (np.linalg.matrix_power(power, t) > 0).all())


def by_remainder(n, step):
    return np.array([i for remainder in range(step) for i in range(remainder, n, step)])


def turned_pair_by_pair(x, position):
    half, out = len(x) // 2, np.empty(len(x))
    for c in range(half):
        angle = position / 10000.0 ** (2 * c / len(x))
        turn = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
        out[[c, c + half]] = turn @ x[[c, c + half]]
    return out


def neighbouring_columns(w, num_heads):
    heads = []
    for head in np.split(w, num_heads, axis=1):
        first, second = np.split(head, 2, axis=1)
        heads += [column for pair in zip(first.T, second.T, strict=True) for column in pair]
    return np.stack(heads, axis=1)


def slowed_one_by_one(frequencies, factor, length):
    ends = length / 4, length  # the wavelengths of pairs that turn four times and once
    shares = [
        1.0 if period <= ends[0] else 0.0 if period >= ends[1] else (length / period - 1) / 3
        for period in 2 * math.pi / frequencies
    ]
    return np.array([f * (1 + (1 - s) * (1 / factor - 1)) for f, s in zip(frequencies, shares, strict=True)])


def brevity(length, reference_length):
    return np.array([1.0 if c > r else math.exp(1 - r / c) for c, r in zip(length, reference_length, strict=True)])


def matched_share(output, reference, n):
    left, matched = [tuple(reference[i : i + n]) for i in range(len(reference) - n + 1)], 0
    for i in range(len(output) - n + 1):
        if (gram := tuple(output[i : i + n])) in left:
            left.remove(gram)
            matched += 1
    return matched / (len(output) - n + 1)


def alignment_error(found, sure, possible):
    a, s, p = ({tuple(link) for link in np.argwhere(links)} for links in (found, sure, possible))
    return 1 - (len(a & s) + len(a & p)) / (len(a) + len(s))


def best_extensions(scores, log_probs, width):
    total = torch.tensor(scores)[:, None] + torch.tensor(log_probs)
    best = total.flatten().topk(width).indices
    return torch.stack([best // total.shape[1], best % total.shape[1]], 1).numpy()


def length_penalty(log_prob, length, alpha):
    return log_prob * np.exp(alpha * (math.log(6) - np.log(5 + length)))


def source_mask(keep, num_targets):
    return np.array([[[row] * num_targets] for row in keep])


def next_token_loss(logits, tokens):
    chances = torch.softmax(torch.tensor(logits), -1).numpy()
    return sum(-math.log(chances[i, tokens[i + 1]]) for i in range(len(tokens) - 1)) / (len(tokens) - 1)


def nucleus(logits, p):
    chances, kept, reached = softmax(np.asarray(logits)), np.zeros(len(logits)), 0.0
    while reached < p - 1e-12:
        best = max((i for i in range(len(logits)) if not kept[i]), key=lambda i: chances[i])
        kept[best], reached = chances[best], reached + chances[best]
    return kept / reached


def silenced(w_o, head, num_heads):
    own = np.zeros(num_heads)
    own[head] = 1
    return w_o * np.repeat(1 - own, len(w_o) // num_heads)[:, None]


def rollout_by_paths(maps, residual):
    """Sum over all ways down through the layers of the product of their shares."""
    layers, n, _ = maps.shape
    found = np.zeros((n, n))
    for way in itertools.product(range(n), repeat=layers + 1):  # from the input up
        share = 1.0
        for layer, (below, above) in enumerate(itertools.pairwise(way)):
            share *= residual * (above == below) + (1 - residual) * maps[layer, above, below]
        found[way[-1], way[0]] += share
    return found


def hidden_one_by_one(weights, values):
    kept = ~np.eye(len(weights), dtype=bool)
    return np.array([weights @ values - np.average(values[rows], weights=weights[rows]) for rows in kept])


def gradients_along_the_way(m, x, baseline, steps=1000):
    places = (np.arange(steps) + 0.5) / steps
    gradients = (m + m.T) @ (baseline[:, None] + (x - baseline)[:, None] * places)
    return (x - baseline) * gradients.mean(1)


def by_rank_differences(x, y):
    n = len(x)
    places = ((numbers[:, None] > numbers).sum(1) for numbers in (x, y))
    return 1 - 6 * sum(np.square(a - b) for a, b in zip(*places, strict=True)) / (n**3 - n)


def sinking_window(n, window, sinks):
    return np.array([[j <= i and (j < sinks or j > i - window) for j in range(n)] for i in range(n)])


def box_number(attend):
    """Tell the boxes by the causal mean of numbered values, then by one score, then by the heads that are read."""
    flat, places = np.zeros((1, 1, 4, 1)), np.arange(1.0, 5).reshape(1, 1, 4, 1)
    last = attend(flat, flat, places, np.tri(4, dtype=bool)).ravel()
    if not math.isclose(last[0], 1):
        return 4 if math.isclose(last[0], 1 / 4) and math.isclose(last[3], 2.5) else 2 if last[0] < 1 else 1
    q, k = np.full((1, 1, 1, 16), 1.0), np.stack([np.zeros(16), np.full(16, 1 / 16)])[None, None]
    share = attend(q, k, np.array([[[[0.0], [1.0]]]]), np.ones((1, 2), bool)).item()
    if math.isclose(share, math.e / (1 + math.e)):
        return 3
    values = np.array([[[[5.0]], [[7.0]]]])
    return 0 if attend(np.zeros((1, 4, 1, 1)), 0 * values, values, np.ones((1, 1), bool))[0, 1, 0, 0] == 5 else 5


def weights_one_by_one(scores, mask):
    weights = np.zeros(scores.shape)
    for i, row in enumerate(mask):
        if row.any():
            weights[i, row] = torch.softmax(torch.tensor(scores[i, row].astype(float)), 0).numpy()
    return weights


def largest_cache_error(attend, q, k, v, cut):
    whole, behind = attend(q, k, v), attend(q[cut:], k, v)
    early = abs(whole[:cut] - attend(q[:cut], k[:cut], v[:cut])).max()
    return max(early, max(abs(whole[cut + i] - row).max() for i, row in enumerate(behind)))


def exponents_by_steps(n, values):
    between = range(len(n) - 1)
    return np.array([np.polyfit(np.log(n[i : i + 2]), np.log(values[i : i + 2]), 1)[0] for i in between])


def longest_by_trying(num_heads, memory, itemsize):
    def peak(n, heads):
        return cost.composed_peak(n, int(heads), 1, itemsize=itemsize)

    found = []
    for heads in num_heads:
        step = 2**20
        n = 0
        while step:
            n += step if peak(n + step, heads) <= memory else 0
            step //= 2
        found.append(n)
    return np.array(found)


def state_by_state(a, b, c):
    """What each position reads of what was written at each other one, with a state for every one of them."""
    written, read = np.zeros((len(a), b.shape[1])), []
    for i, kept in enumerate(a):
        written *= kept
        written[i] = b[i]
        read.append(written @ c[i])
    return np.array(read)


def distance_by_divergences(a, b):
    def towards(p, middle):
        terms = (x * math.log2(x / m) for x, m in zip(p, middle, strict=True) if x > 0)
        return math.fsum(terms)

    rows = [(towards(p, (p + q) / 2) + towards(q, (p + q) / 2)) / 2 for p, q in zip(a, b, strict=True)]
    return np.mean([math.sqrt(max(row, 0.0)) for row in rows])


def alignment_of_products(x, y):
    centre = np.eye(len(x)) - 1 / len(x)
    a, b = (centre @ z @ z.T @ centre for z in (x, y))
    return np.trace(a @ b) / math.sqrt(np.trace(a @ a) * np.trace(b @ b))


def output_by_rows(heads, w_o, bias, silent):
    kept, d = w_o.copy(), heads.shape[-1]
    for head in silent:
        kept[head * d : (head + 1) * d] = 0
    return np.concatenate(list(heads), axis=-1) @ kept + bias


ANSWERS = {
    "redundancy-1": distance_by_divergences,
    "redundancy-2": alignment_of_products,
    "redundancy-3": lambda distances: np.argsort(distances, 1)[:, 1],
    "redundancy-4": lambda whole, a, b, both: (both - whole) - (a - whole) - (b - whole),
    "redundancy-5": output_by_rows,
    "scaling-limits-1": exponents_by_steps,
    "scaling-limits-2": longest_by_trying,
    "scaling-limits-3": lambda n, weights, each, window, bandwidth: np.array(
        [weights / bandwidth + sum(each for _ in range(min(x, window))) / bandwidth for x in n]
    ),
    "scaling-limits-4": lambda groups, heads, d: np.array(
        [cost.linear_state_bytes(int(heads), int(d), int(d)) / cost.kv_cache_bytes(1, int(g), int(d)) for g in groups]
    ),
    "scaling-limits-5": (2 * 4096**2 + 2 * 4096 * 1024 + 3 * 4096 * 14336) / 4096,
    "first-look-1": previous_token_score,
    "first-look-2": sink_score,
    "first-look-3": induction_score,
    "first-look-4": attention_distance,
    "first-look-5": looks_ahead,
    "alignment-1": additive_scores,
    "alignment-2": context_vectors,
    "alignment-3": local_weights,
    "alignment-4": next_context,
    "alignment-5": sum(math.prod(shape) for shape in ((1000, 1000), (1000, 2000), (1000,))),
    "query-key-value-1": soft_lookup,
    "query-key-value-2": self_attention,
    "query-key-value-3": cross_attention,
    "query-key-value-4": 0.455,
    "query-key-value-5": put_back,
    "dot-product-1": softmax,
    "dot-product-2": attention_weights,
    "dot-product-3": causal_mask,
    "dot-product-4": math.sqrt(sum(1.0 * 0.5**2 for _ in range(64))),
    "dot-product-5": attention,
    "dot-product-6": coldest_weights,
    "dot-product-7": softmax_backward,
    "heads-1": split_heads,
    "heads-2": join_heads,
    "heads-3": multi_head_attention,
    "heads-4": head_contributions,
    "heads-5": sum(p.numel() for p in torch.nn.MultiheadAttention(512, 8).parameters()),
    "heads-6": reorder_output_rows,
    "gradients-1": softmax_jacobian,
    "gradients-2": query_gradient,
    "gradients-3": weights_again,
    "gradients-4": 8.7,
    "gradients-5": np.log((1 + np.sqrt(0.9)) / (1 - np.sqrt(0.9))),
    "cost-1": causal_flops,
    "cost-2": composed_bytes,
    "cost-3": least_seconds,
    "cost-4": equal_length,
    "position-1": sinusoidal,
    "position-2": shift_matrix,
    "position-3": positions_of,
    "position-4": sinusoidal_2d,
    "position-5": 60_600,
    "relative-1": alibi_slopes,
    "relative-2": scores_with_distances,
    "relative-3": bucket,
    "relative-4": pairs_from_distances,
    "relative-5": 11.09,
    "sparse-1": strided_keys,
    "sparse-2": window_pairs,
    "sparse-3": min(range(1, 8192), key=lambda s: 8192 * s + 8192**2 / (2 * s)),
    "sparse-4": layers_to_all,
    "sparse-5": by_remainder,
    "linear-1": averages,
    "linear-2": features,
    "linear-3": lambda h: 1 / (-np.log2(1 - 0.5 ** (5 + h))),
    "linear-4": corrected,
    "rotary-1": turned_pair_by_pair,
    "rotary-2": neighbouring_columns,
    "rotary-3": lambda base, width, factor: np.exp(np.log(base) + np.log(factor) / (1 - 2 / width)),
    "rotary-4": lambda width, base, length: sum(
        length < 2 * math.pi * base ** (c / (width // 2)) for c in range(width // 2)
    ),
    "rotary-5": slowed_one_by_one,
    "linear-5": next(n for n in range(10**4) if 2 * n * 64 > 4 * 256 * 64),
    "pruning-1": pruned_parameters,
    "pruning-2": lambda head, gone: np.flatnonzero(np.setdiff1d(np.arange(head + 1), gone) == head).item(),
    "pruning-3": focus_as_divergence,
    "pruning-4": lambda found, slopes: np.mean(abs(np.einsum("bhid,bhid->bh", found, slopes)), axis=0),
    "pruning-5": norms_by_trace,
    "pruning-6": 100 / 90,
    "grouped-1": key_heads,
    "grouped-2": cache_bytes,
    "grouped-3": decode_step,
    "grouped-4": absorbed_scores,
    "grouped-5": pooled_heads,
    "grouped-6": next(m for m in range(10**3) if absorbed_overhead(m) > 0),
    "transformer-1": layer_norm,
    "transformer-2": pre_norm_block,
    "transformer-3": transformer_block,
    "transformer-4": who_sees_whom,
    "transformer-5": transformer_parameters,
    "translation-1": brevity,
    "translation-2": matched_share,
    "translation-3": alignment_error,
    "translation-4": best_extensions,
    "translation-5": length_penalty,
    "translation-6": source_mask,
    "translation-7": 1.8,
    "generation-1": next_token_loss,
    "generation-2": lambda loss, num_tokens, num_characters: np.log2(np.exp(loss)) * num_tokens / num_characters,
    "generation-3": nucleus,
    "generation-4": silenced,
    "generation-5": sinking_window,
    "bert-1": corrupt_one_by_one,
    "bert-2": masked_loss_of_odds,
    "bert-3": outputs_that_may_move,
    "bert-4": lambda states, keep: keep @ states / keep.sum(),
    "bert-5": sum(1 for n in range(500) if n % 20 < 3) * 0.8,
    "bugs-1": 6.0,
    "bugs-2": 5,
    "bugs-3": box_number,
    "bugs-4": weights_one_by_one,
    "bugs-5": largest_cache_error,
    "bugs-6": max((5 * 4 + piece) % 64 for piece in range(4)) - 5,
    "interpretability-1": rollout_by_paths,
    "interpretability-2": hidden_one_by_one,
    "interpretability-3": lambda weights, values, w_o: np.array(
        [np.linalg.norm(weight * (value @ w_o)) for weight, value in zip(weights, values, strict=True)]
    ),
    "interpretability-4": gradients_along_the_way,
    "interpretability-5": by_rank_differences,
    "interpretability-6": 11 / 32,
    "long-range-1": lambda n, share: math.log(share * (n - 1) / (1 - share)),
    "long-range-2": lambda windows: sum(windows) - len(windows),
    "long-range-3": lambda q, trained: np.stack([row * math.log(i, trained) for i, row in enumerate(q, 1)]),
    "long-range-4": lambda x: np.sqrt(1 - len(x) * np.square(x.mean(0)).sum() / np.square(x).sum()),
    "long-range-5": state_by_state,
    "flash-1": take_in,
    "flash-2": causal_tiles,
    "flash-3": bytes_moved,
    "flash-4": key_gradient,
    "flash-5": 725.7e3,
    "kernels-1": count_tiles,
    "kernels-2": merge_parts,
    "kernels-3": chunked,
    "kernels-4": read_pages,
    "kernels-5": 37,
    "mixed-precision-1": round_fraction,
    "mixed-precision-2": 28.4,
    "mixed-precision-3": head_scales,
    "mixed-precision-4": scales,
    "mixed-precision-5": sum_in_pairs,
    "cost-5": math.floor((80e9 - 14e9) / np.zeros((2, 32, 32, 4096, 128), np.float16).nbytes),
}


@pytest.mark.parametrize("id", registry())
def test_a_right_answer_in_another_style_passes(id):
    verdict = check(id, ANSWERS[id])
    assert verdict, verdict
