"""How many numbers a layer learns."""

from mha.cost.sizes import counts, widths


def attention_parameters(d_model, num_heads, *, num_kv_heads=None, d_head=None, bias=True):
    """Count the parameters of the four projections.   Book: {eq}`attention-parameters`.

    With d_head = d_model / num_heads the count does not depend on the number of heads.
    """
    if not isinstance(bias, bool):
        raise TypeError(f"bias is {bias!r}: expected True or False")
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
