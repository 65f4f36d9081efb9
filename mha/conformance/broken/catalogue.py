"""The bugs by name: what finds each, and where it was reported."""

from typing import NamedTuple

from mha.conformance.broken import bugs


class Bug(NamedTuple):
    """What is broken, which case of the kit or which check finds it, and where it was reported."""

    decoder: type
    found_by: str
    reports: tuple[str, ...]


BUGS = {
    bug.decoder.__name__: bug
    for bug in (
        Bug(bugs.InvertedMask, "true-attends", ("rasbt/LLMs-from-scratch#1061", "pytorch/pytorch#170400")),
        Bug(bugs.NextTokenVisible, "causal-square", ("octo-models/octo#75",)),
        Bug(bugs.SecondLayerUnmasked, "future_error", ("huggingface/transformers#31673",)),
        Bug(bugs.MaskAdded, "rows-differ", ("pytorch/pytorch#21518", "karpathy/minGPT#75")),
        Bug(bugs.MaskAfterSoftmax, "rows-differ", ("huggingface/pytorch-image-models#2236",)),
        Bug(
            bugs.SoftmaxOverQueries,
            "equal-values-come-out",
            ("labmlai/annotated_deep_learning_paper_implementations#146",),
        ),
        Bug(bugs.JoinedWithoutTranspose, "future_error", ("jsbaan/transformer-from-scratch#6",)),
        Bug(bugs.SplitWithoutTranspose, "cache_error", ("reczoo/FuxiCTR#30",)),
        Bug(bugs.NoScale, "the-default-scale", ("mlc-ai/mlc-llm#3426",)),
        Bug(bugs.NormedResidual, "residual_error", ("pytorch/pytorch#61165",)),
        Bug(bugs.NoLastNorm, "last_norm_error", ("OpenNMT/CTranslate2#850",)),
        Bug(bugs.DropoutAlways, "the-same-call-gives-the-same", ("pytorch/pytorch#124464",)),
        Bug(bugs.AlibiTurned, "distance_error", ("meta-pytorch/attention-gym#86",)),
        Bug(bugs.RotaryNeighbours, "a-rotated-vector", ("huggingface/transformers#25199",)),
        Bug(bugs.HeadsTakeTurns, "groups-are-contiguous", ("onnx/onnx#7274",)),
        Bug(bugs.PositionsRestart, "cache_error", ("ml-explore/mlx-lm#93",)),
        Bug(bugs.MaskFromUpperLeft, "a-decoding-step-sees-every-key", ("pytorch/pytorch#144858",)),
        Bug(bugs.NanCoveredUp, "empty-rows-give-keys-no-gradient", ("pytorch/pytorch#41508",)),
        Bug(
            bugs.LowestNumber,
            "an-empty-row-gives-zero",
            ("huggingface/transformers#27114", "NVIDIA-NeMo/Automodel#2658"),
        ),
        Bug(bugs.ScaledTooLate, "half-precision-does-not-overflow", ("ultralytics/ultralytics#24990",)),
        Bug(bugs.PaddingOnQueries, "padding_error", ("bentrevett/pytorch-seq2seq#96",)),
        Bug(bugs.PaddingInMean, "pooling_error", ("huggingface/sentence-transformers#2569",)),
    )
}
