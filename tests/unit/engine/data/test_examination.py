"""Sizes are known again by the same base alone: its tokenizer, its template, its rules."""

from pathlib import Path

from auctune.engine.data.examination import examination_digest


def test_a_digest_changes_with_the_tokenizer_and_its_templates_and_not_with_weights(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "base"
    (folder / "additional_chat_templates").mkdir(parents=True)
    (folder / "config.json").write_text("{}")

    def digest() -> str:
        return examination_digest(str(folder), tmp_path)

    seen = [digest()]
    for name in (
        "tokenizer.json",
        "tokenizer_config.json",
        "chat_template.jinja",
        "additional_chat_templates/tools.jinja",
    ):
        (folder / name).write_text("one")
        seen.append(digest())
        (folder / name).write_text("another")
        seen.append(digest())
    assert len(set(seen)) == len(seen)
    (folder / "model.safetensors").write_bytes(b"weights")
    assert digest() == seen[-1]


def test_bases_that_are_not_here_differ_by_their_names(tmp_path: Path) -> None:
    names = ("tiny", "hub:some/model", "hub:another/model", "no folder")
    digests = [examination_digest(name, tmp_path) for name in names]
    assert len(set(digests)) == len(names)
    assert digests == [examination_digest(name, tmp_path) for name in names]
