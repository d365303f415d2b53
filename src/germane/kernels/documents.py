"""Documents of a batch: tokens -> words by element."""

from typing import Any

from germane.kernels.compile import kernel


@kernel
def cut_at_marks(tokens: Any, words: Any, at: Any) -> Any:
    """Drop the marks (0) between texts, and note where each text begins; how many words."""
    n = 0
    text = 0
    at[0] = 0
    for i in range(tokens.shape[0]):
        if tokens[i] == 0:
            text += 1
            at[text] = n
        else:
            words[n] = tokens[i]
            n += 1
    return n
