"""How many numbers a layer learns."""

from mha.cost.sizes import counts, widths


def attention_parameters(d_model, num_heads, *, num_kv_heads=None, d_head=None, bias=True):
    """Count the parameters of the four projections.   Book: {eq}`attention-parameters`.

    With d_head = d_model / num_heads the count does not depend on the number of heads.
    """
    _check_bias(bias)
    d_model, d_q, d_kv = widths(d_model, num_heads, num_kv_heads, d_head)
    weights = 2 * d_model * d_q + 2 * d_model * d_kv
    return weights + bias * (d_q + 2 * d_kv + d_model)


def latent_parameters(d_model, num_heads, latent):
    """Count the parameters of multi-head latent attention (DeepSeek-AI, 2024), the gains of its norms included."""
    return sum(latent_weights(d_model, num_heads, latent)) + latent.d_latent + (latent.d_query_latent or 0)


def latent_weights(d_model, num_heads, latent):
    """Count the weights that make queries, latents and the output, and those between the latents and the heads."""
    d_model, num_heads = counts(d_model=d_model, num_heads=num_heads)
    d_q, narrow = num_heads * (latent.d_head + latent.d_rope), latent.d_query_latent
    queries = d_model * d_q if narrow is None else narrow * (d_model + d_q)
    latents, output = d_model * (latent.d_latent + latent.d_rope), num_heads * latent.d_value * d_model
    return queries + latents + output, num_heads * latent.d_latent * (latent.d_head + latent.d_value)


def feed_forward_parameters(d_model, d_mlp, *, num_matrices=2, bias=True):
    """Count the parameters of a feed-forward layer: two matrices, or three with a gate, and a bias beside each."""
    d_model, d_mlp = counts(d_model=d_model, d_mlp=d_mlp)
    if num_matrices not in (2, 3):
        raise ValueError(f"num_matrices is {num_matrices}: expected 2, up and down, or 3 with a gate")
    _check_bias(bias)
    return num_matrices * d_model * d_mlp + bias * ((num_matrices - 1) * d_mlp + d_model)


def block_parameters(d_model, num_heads, d_mlp, *, num_attentions=1, bias=True):
    """Count the parameters of a block with layer norms: an encoder's, or a decoder's with `num_attentions=2`."""
    (num_attentions,) = counts(num_attentions=num_attentions)
    attention = attention_parameters(d_model, num_heads, bias=bias)
    norms = (num_attentions + 1) * (1 + bias) * d_model
    return num_attentions * attention + feed_forward_parameters(d_model, d_mlp, bias=bias) + norms


def transformer_parameters(vocab_size, d_model, num_heads, d_mlp, num_layers):
    """Count the parameters of the first Transformer (Vaswani et al., 2017): one embedding for all, norms behind.

    Positions are sines and the logits use the embedding again, so neither has parameters.
    """
    vocab_size, num_layers = counts(vocab_size=vocab_size, num_layers=num_layers)
    encoder = block_parameters(d_model, num_heads, d_mlp)
    decoder = block_parameters(d_model, num_heads, d_mlp, num_attentions=2)
    return vocab_size * d_model + num_layers * (encoder + decoder)


def _check_bias(bias):
    if not isinstance(bias, bool):
        raise TypeError(f"bias is {bias!r}: expected True or False")
