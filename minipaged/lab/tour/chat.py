"""Lab: questions as the token ids that a chat model expects."""

from collections.abc import Sequence

from transformers import PreTrainedTokenizerBase


def chat_prompts(
    tokenizer: PreTrainedTokenizerBase,
    questions: Sequence[str],
    system: str | None = None,
) -> list[list[int]]:
    """Each question in the model's chat template, up to where its answer begins.

    `system`: a system prompt, the same before every question.
    """
    head = [{"role": "system", "content": system}] if system else []
    texts = [
        tokenizer.apply_chat_template(
            [*head, {"role": "user", "content": question}],
            add_generation_prompt=True,
            tokenize=False,
        )
        for question in questions
    ]
    # The template has put the special tokens there already.
    return tokenizer(texts, add_special_tokens=False).input_ids
