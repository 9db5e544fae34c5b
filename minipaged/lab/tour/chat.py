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


def three_users(tokenizer: PreTrainedTokenizerBase) -> dict[str, list[int]]:
    """The prompts of A, B and C, who use the pocket model in all lessons.

    With the pocket model's tokenizer they have 21, 7 and 13 tokens.
    """
    asked = {
        "A": "Tell me a story about a penguin who wanted to sleep.",
        "B": "2+2?",
        "C": "What is the capital of Portugal?",
    }
    prompts = chat_prompts(tokenizer, list(asked.values()))
    return dict(zip(asked, prompts, strict=True))
