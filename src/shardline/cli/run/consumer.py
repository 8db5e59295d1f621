"""Loads the consumer that MODULE:CONSUMER names, or raises one line that says why not."""

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from shardline.errors import ConfigurationError

if TYPE_CHECKING:
    from shardline.consumer.consumer import ShardConsumer


def import_from_here() -> None:
    """Put the working directory on the module path, of this process and of its runners."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)


def load_consumer(text: str) -> "ShardConsumer":
    """Import MODULE:CONSUMER from here or the Python path, and make an instance of a class."""
    module_name, colon, attribute = text.partition(":")
    if not colon or not module_name or not attribute:
        raise ConfigurationError(f"{text!r}: write MODULE:CONSUMER, for example billing:Billing")
    import_from_here()
    module = _import(text, module_name)
    found: Any = getattr(module, attribute, None)
    if found is None:
        raise ConfigurationError(f"{text!r}: {module_name} has no {attribute}{_suggestion(module)}")
    from shardline.consumer.consumer import ShardConsumer

    if isinstance(found, type) and issubclass(found, ShardConsumer):
        try:
            found = found()
        except Exception as error:
            raise ConfigurationError(
                f"{text!r} cannot be made without arguments ({_text_of(error)}): name an instance "
                "of it that the module has"
            ) from error
    if not isinstance(found, ShardConsumer):
        raise ConfigurationError(f"{text!r} is not a shardline.ShardConsumer: subclass that")
    return found


def _import(text: str, module_name: str) -> ModuleType:
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name in {module_name, module_name.partition(".")[0]}:
            raise ConfigurationError(
                f"{text!r}: there is no {module_name} in this folder or on the Python path"
            ) from error
        raise ConfigurationError(
            f"{text!r}: {module_name} needs {error.name}, which is not installed"
        ) from error
    except Exception as error:
        raise ConfigurationError(
            f"{text!r}: importing {module_name} failed with {_text_of(error)}; "
            "`shardline --debug run …` shows where"
        ) from error


def _text_of(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _suggestion(module: ModuleType) -> str:
    from shardline.consumer.consumer import ShardConsumer

    kinds = [
        name
        for name, value in vars(module).items()
        if isinstance(value, type)
        and issubclass(value, ShardConsumer)
        and value is not ShardConsumer
    ]
    return f": did you mean {' or '.join(kinds)}?" if kinds else ", and no other ShardConsumer"
