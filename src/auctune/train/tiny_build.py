"""How the tiny base is made: a tokenizer and a model, trained on texts that are made up here."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from torch.nn.functional import cross_entropy
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

from auctune.train.tiny import Progress, TinyRecipe
from auctune.train.tiny_text import chats, texts
from auctune.train.tokenizer import quiet_transformers

END = "<|end|>"
PADDING = "<|pad|>"
TURN = "<|turn|>"
# The generation markers let transformers itself say which tokens are the assistant's.
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    f"{TURN}{{{{ message.role }}}}\n"
    "{% if message.role == 'assistant' %}"
    f"{{% generation %}}{{{{ message.content }}}}{END}{{% endgeneration %}}"
    "{% else %}{{ message.content }}\n{% endif %}"
    "{% endfor %}"
    f"{{% if add_generation_prompt %}}{TURN}assistant\n{{% endif %}}"
)


def build_tiny(folder: Path, recipe: TinyRecipe, progress: Progress) -> None:
    """Train a tiny base and save it into a folder."""
    with _reproducible(recipe.seed):
        tokenizer = _train_tokenizer(recipe)
        model = _pretrain(recipe, tokenizer, progress)
    tokenizer.save_pretrained(folder)
    with quiet_transformers():
        model.save_pretrained(folder)


def _train_tokenizer(recipe: TinyRecipe) -> PreTrainedTokenizerFast:
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=recipe.vocabulary,
        special_tokens=[AddedToken(text, special=True) for text in (END, PADDING, TURN)],
        # Every byte, so that any text at all can be spelled.
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(_all_texts(recipe), trainer)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        eos_token=END,
        pad_token=PADDING,
        additional_special_tokens=[TURN],
        model_max_length=recipe.context,
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def _all_texts(recipe: TinyRecipe) -> Iterator[str]:
    plain = islice(texts(recipe.seed), recipe.num_texts)
    spoken = islice(chats(recipe.seed + 1), recipe.num_texts // 2)
    return chain(plain, (message["content"] for chat in spoken for message in chat))


def _pretrain(
    recipe: TinyRecipe, tokenizer: PreTrainedTokenizerFast, progress: Progress
) -> GPT2LMHeadModel:
    model = GPT2LMHeadModel(_config(recipe, tokenizer))
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), recipe.learning_rate, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, recipe.learning_rate, total_steps=recipe.steps, pct_start=0.1
    )
    stream = _token_stream(recipe, tokenizer)
    for step in range(recipe.steps):
        block = list(islice(stream, recipe.rows * recipe.row_tokens))
        batch = torch.tensor(block).view(recipe.rows, recipe.row_tokens)
        logits = model(input_ids=batch).logits[:, :-1]
        loss = cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        progress((step + 1) / recipe.steps)
    model.eval()
    return model


def _config(recipe: TinyRecipe, tokenizer: PreTrainedTokenizerFast) -> GPT2Config:
    return GPT2Config(
        vocab_size=recipe.vocabulary,
        n_positions=recipe.context,
        n_embd=recipe.width,
        n_layer=recipe.layers,
        n_head=recipe.heads,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=tokenizer.eos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )


def _token_stream(recipe: TinyRecipe, tokenizer: PreTrainedTokenizerFast) -> Iterator[int]:
    """Tokens of texts and chats in turn, each text closed by the end token, without end."""
    for text, chat in zip(texts(recipe.seed + 2), chats(recipe.seed + 3), strict=False):
        yield from tokenizer(text)["input_ids"]
        yield tokenizer.eos_token_id
        yield from tokenizer(tokenizer.apply_chat_template(chat, tokenize=False))["input_ids"]


@contextmanager
def _reproducible(seed: int) -> Iterator[None]:
    """One thread and a seeded global random state, both given back afterwards."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            # Not `torch.manual_seed`, which seeds the generators of all GPUs too.
            torch.default_generator.manual_seed(seed)
            yield
    finally:
        torch.set_num_threads(threads)
