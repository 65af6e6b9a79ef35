"""One row's texts cleaned, by what the ends of each mean, and rewritten as another kind."""

from auctune.domain.dataset import RowKind
from auctune.run.vendors.schema import ShapedRow
from auctune.run.vendors.text_cleaning import clean_text


def clean_row(row: ShapedRow) -> ShapedRow:
    """The row with clean texts; a chat loses empty system messages and empty last messages.

    Between prompt and completion blanks are kept: a trainer joins the two as they stand.
    """
    texts = tuple((part, _clean_part(part, text)) for part, text in row.texts)
    if row.kind is RowKind.CHAT:
        texts = tuple((role, text) for role, text in texts if text or role != "system")
        last = max((n for n, (_, text) in enumerate(texts) if text), default=-1)
        texts = texts[: last + 1]
    return ShapedRow(row.kind, texts)


def _clean_part(part: str, text: str) -> str:
    # Stripping may bare what cleaning can mend then (mojibake beside a wide blank).
    while (cleaned := _strip(part, clean_text(text))) != text:
        text = cleaned
    return text


def _strip(part: str, text: str) -> str:
    if not text.strip():
        return ""
    if part == "prompt":
        return text.lstrip()
    return text.rstrip() if part == "completion" else text.strip()


def has_content(row: ShapedRow) -> bool:
    """Whether a trainer can learn from the row: a prompt may be empty, nothing else."""
    if row.kind is RowKind.CHAT:
        roles = [role for role, _ in row.texts]
        return "assistant" in roles and all(text for _, text in row.texts)
    return bool(row.texts[-1][1])


def convert_row(row: ShapedRow, kind: RowKind) -> ShapedRow | None:
    """The row as one of `kind`; none where that would lose or invent something."""
    if row.kind is kind:
        return row
    texts = dict(row.texts)
    if row.kind is RowKind.TEXT:
        # Without a prompt, all of the text is learned: what a text row means.
        completion = (("prompt", ""), ("completion", texts["text"]))
        return ShapedRow(kind, completion) if kind is RowKind.COMPLETION else None
    if row.kind is RowKind.COMPLETION:
        return _convert_completion(texts["prompt"], texts["completion"], kind)
    return _convert_chat(row) if kind is RowKind.COMPLETION else None


def _convert_completion(prompt: str, completion: str, kind: RowKind) -> ShapedRow | None:
    if kind is RowKind.TEXT:
        return ShapedRow(kind, (("text", prompt + completion),))
    if not prompt.strip():
        return None
    return ShapedRow(kind, (("user", prompt.strip()), ("assistant", completion.strip())))


def _convert_chat(row: ShapedRow) -> ShapedRow | None:
    """One question and its answer, with or without a system message before it."""
    roles = [role for role, _ in row.texts]
    if roles not in (["user", "assistant"], ["system", "user", "assistant"]):
        return None
    *questions, answer = [text for _, text in row.texts]
    prompt = "\n\n".join(questions) + "\n"
    return ShapedRow(RowKind.COMPLETION, (("prompt", prompt), ("completion", answer)))
