"""What comes from outside, checked against a pydantic model, with this project's errors.

One wrong field is one line: where it is, what was found, what was expected.
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    StrictBool,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    create_model,
)
from pydantic_core import CoreSchema, core_schema

from auctune.domain import InputError
from auctune.domain.start_adapter import StartAdapter
from auctune.domain.training import PARAMETERS, Parameter

M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")
_SHOWN = 60

# Numbers are numbers and texts are texts: "3" is not 3, and true is not 1.
STRICT = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class FileModel(BaseModel):
    """An object of a file; errors name its keys."""

    model_config = STRICT


@dataclass(frozen=True, slots=True)
class Expected:
    """An annotation: what a field or an element should be, for errors, in the format's words."""

    words: str


# Activations of every n-th layer are recomputed; earlier files say true for 1 and false for 0.
CheckpointInterval = Annotated[
    int,
    BeforeValidator(lambda value: int(value) if type(value) is bool else value),
    Field(ge=0),
]

# More than any machine has.
NumDevices = Annotated[int, Field(ge=1, le=64)]

# A list of TOML or JSON is not a tuple of a strict model.
Texts = Annotated[
    tuple[str, ...], BeforeValidator(lambda value: tuple(value) if type(value) is list else value)
]


def with_hyperparameters(without: Collection[str] = ()) -> Callable[[type[M]], type[M]]:
    """Class decorator that adds the hyperparameters of training to a model, as it declares them.

    Fields of the model itself go before those of the same name. Read the values by
    `hyperparameters_of`.

    Args:
        without: hyperparameters that the model does not have.
    """

    def extend(model: type[M]) -> type[M]:
        missing = PARAMETERS.keys() - model.model_fields.keys() - set(without)
        added: dict[str, Any] = {
            name: _field_of(parameter) for name, parameter in PARAMETERS.items() if name in missing
        }
        return create_model(
            model.__name__,
            __base__=model,
            __module__=model.__module__,
            __doc__=model.__doc__,
            **added,
        )

    return extend


def hyperparameters_of(model: BaseModel, start: StartAdapter | None = None) -> dict[str, Any]:
    """Return the hyperparameters that a model has, by name.

    Args:
        model: as of `with_hyperparameters`.
        start: adapter that the job starts from, some of whose settings are the job's.

    Raises:
        InputError: naming a hyperparameter that was given and contradicts the adapter.
    """
    found = {name: getattr(model, name) for name in PARAMETERS if name in type(model).model_fields}
    if start is None:
        return found
    given = {name: found[name] for name in found if name in model.model_fields_set}
    return found | start.settings(given)


def _field_of(parameter: Parameter) -> tuple[Any, Any]:
    """Return annotation and field of a hyperparameter, for `create_model`."""
    default, description = parameter.default, parameter.description
    if parameter.kind not in (int, float):
        kinds = {bool: StrictBool, tuple[str, ...]: Texts}
        return kinds.get(parameter.kind, parameter.kind), Field(
            default=default, description=description
        )
    field = Field(
        default=default,
        description=description,
        ge=parameter.minimum,
        gt=parameter.above,
        le=parameter.maximum,
        lt=parameter.below,
        strict=True,
        allow_inf_nan=False,
    )
    return parameter.kind, field


@dataclass(frozen=True, eq=False)
class ByKind:
    """An annotation: a table whose key `kind` says of which model it is.

    pydantic's own unions want two models or more, and the key in every table.

    Attributes:
        models: by kind, each with a field `kind`.
        default: the kind of a table that says none.
        find: returns the model of another kind, or None. It is called with the kinds of tables
            that are not in `models` only, and may load the model.
    """

    models: Mapping[str, type[BaseModel]]
    default: str
    find: Callable[[str], type[BaseModel] | None] = lambda _kind: None

    def __get_pydantic_core_schema__(self, _: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Check that the kind is known, and then its model's fields."""
        choices = {_tag(name): handler(model) for name, model in self.models.items()}
        union = core_schema.tagged_union_schema(choices, lambda value: _tag(self._kind(value)))
        return core_schema.with_info_wrap_validator_function(self._validate, union)

    def _kind(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            return value.get("kind", self.default)
        return getattr(value, "kind", self.default)

    def _validate(
        self, value: Any, handler: ValidatorFunctionWrapHandler, info: ValidationInfo
    ) -> Any:
        kind = self._kind(value)
        if not isinstance(kind, str):
            raise InputError("kind", f"{_shorten(kind)} is unknown", _one_of(self.models))
        if kind in self.models:
            return handler(value)
        other = self.find(kind)
        if other is None:
            raise InputError("kind", f"{kind!r} is unknown", _one_of(self.models))
        return check_schema(other, value, "", info.context)


def _tag(kind: str) -> str:
    """A kind within pydantic's locations, where nothing of a file is called so."""
    return f"[{kind}]"


def check_schema(
    model: type[M],
    value: Any,
    place: str,
    context: object = None,
    fixed: Mapping[str, str] | None = None,
) -> M:
    """Validate `value`, plain data of a file or request, as an instance of `model`.

    Args:
        model: the pydantic model.
        value: plain data.
        place: of the data, for errors.
        context: for the validators of the model.
        fixed: values of keys that are not settings any more, by path without indices.

    Raises:
        InputError: for the first field that is wrong: `place: path: found; expected ...`.
    """
    try:
        return model.model_validate(value, context=context)
    except ValidationError as error:
        raise to_input_error(error, place, value, model, fixed) from None


def check_file(model: type[M], value: Any) -> M:
    """Validate what a file holds; its name goes before errors, which name its fields.

    Raises:
        InputError: as of `check_schema`; where it is no object, naming "the file".
    """
    try:
        return check_schema(model, value, "")
    except InputError as error:
        raise error if error.place else error.at("the file") from None


def check_json(adapter: TypeAdapter[T], text: str | bytes, place: str) -> T:
    """A JSON text as what `adapter` makes of it.

    Raises:
        InputError: as of `check_schema`; or if the text is not valid JSON.
    """
    try:
        return adapter.validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        if first["type"] == "json_invalid":
            found = f"is not valid JSON ({first['ctx']['error']})"
            raise InputError(place, found, "JSON") from None
        raise to_input_error(error, place, plain_json(text)) from None


def plain_json(text: str | bytes) -> Any:
    """What a JSON text says; nothing where it is none."""
    try:
        return json.loads(text)
    except ValueError:
        return None


def to_input_error(
    error: ValidationError,
    place: str,
    value: Any,
    model: type[BaseModel] | None = None,
    fixed: Mapping[str, str] | None = None,
) -> InputError:
    """The first error that pydantic found in `value`, as one of ours; `model` names the keys.

    `fixed` as of `check_schema`.
    """
    paths = [(_path_in(value, found), found) for found in error.errors()]
    start = paths[0][0]
    # Of a field that may be of several types, the one that got furthest is what was meant.
    path, first = max(
        ((path, found) for path, found in paths if path[: len(start)] == start),
        key=lambda pair: len(pair[0]),
    )
    where = _join(place, format_path(path))
    own = first.get("ctx", {}).get("error")
    if isinstance(own, InputError):
        # A validator of a single value does not know what it is called.
        return _placed(own, place, path)
    if first["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        always = (fixed or {}).get(".".join(part for part in path if isinstance(part, str)))
        if always is not None:
            found = f"is no longer a setting: it is always {always}"
            return InputError(where, found, "the key to be removed")
        return InputError(where, "is an unknown key", _expected_keys(model, first["loc"]))
    expected = _expected_at(model, path)
    if first["type"] == "missing":
        return InputError(where, "is missing", expected or "a value")
    if expected is None:
        # Each of the types that got as far says what it expects.
        messages = [one["msg"].removeprefix("Input should be ") for at, one in paths if at == path]
        expected = " or ".join(dict.fromkeys(messages))
    return InputError(where, _shorten(first["input"]), expected)


def _expected_at(model: Any, path: Sequence[str | int]) -> str | None:
    """Return what is said of a place in a model's annotations, or None."""
    said: str | None = None
    for part in path:
        fields = getattr(model, "model_fields", None)
        if fields is not None and part not in fields:
            return None
        if fields is not None:
            model, marks = fields[part].annotation, fields[part].metadata
        else:
            if type(None) in get_args(model):
                model = next(one for one in get_args(model) if one is not type(None))
            # Of a list or an object, the elements.
            (*_, model) = get_args(model) or (None,)
            marks = getattr(model, "__metadata__", ())
            model = getattr(model, "__origin__", model) if marks else model
        said = next((mark.words for mark in marks if isinstance(mark, Expected)), None)
    if isinstance(model, type) and issubclass(model, FileModel):
        return f"an object with {', '.join(model.model_fields)}"
    return said


def _placed(own: InputError, place: str, path: Sequence[str | int]) -> InputError:
    """A validator's error, with the path of what it looked at before its own."""
    where = ".".join(filter(None, (format_path(path), own.place)))
    return InputError(_join(place, where), own.found, own.expected)


def _join(place: str, path: str) -> str:
    return ": ".join(filter(None, (place, path)))


def _expected_keys(model: Any, loc: Sequence[str | int]) -> str:
    """The keys beside an unknown one."""
    kind = ""
    for part in loc[:-1]:
        for mark in getattr(model, "__metadata__", ()):
            if isinstance(mark, ByKind) and (known := _of_tag(mark, part)) is not None:
                model, kind = mark.models[known], f" (kind {known!r})"
        fields = getattr(model, "model_fields", None)
        if fields and part in fields:
            model, kind = fields[part].annotation, ""
            # Of a list or a table of models, the model.
            inner = [one for one in get_args(model) if hasattr(one, "model_fields")]
            model = inner[0] if inner else model
    fields = getattr(model, "model_fields", None)
    return f"{_one_of(fields)}{kind}" if fields else "one of the keys that the docs list"


def _of_tag(mark: ByKind, part: str | int) -> str | None:
    return next((kind for kind in mark.models if _tag(kind) == part), None)


def _one_of(names: Iterable[str]) -> str:
    return f"one of {', '.join(names)}"


def format_path(loc: Sequence[str | int]) -> str:
    """A field's path as a reader writes it: ("bids", 2, "deadline") is bids[2].deadline."""
    path = ""
    for part in loc:
        if isinstance(part, int):
            path += f"[{part}]"
        else:
            path += f".{part}" if path else part
    return path


def _path_in(value: Any, error: Mapping[str, Any]) -> tuple[str | int, ...]:
    """The keys and indices of the location of a pydantic error, without its names of types."""
    path: list[str | int] = []
    is_missing = error["type"] == "missing"
    for part in error["loc"]:
        is_key = isinstance(value, Mapping) and (part in value or is_missing)
        if is_key and not str(part).startswith("["):
            path.append(part)
            value = value.get(part)
        elif isinstance(value, list) and isinstance(part, int):
            path.append(part)
            value = value[part]
    return tuple(path)


def _shorten(value: Any) -> str:
    if isinstance(value, Mapping | list):
        return f"a {'table' if isinstance(value, Mapping) else 'list'}"
    # As JSON, and TOML, have it.
    text = json.dumps(value) if value is None or isinstance(value, bool) else repr(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
