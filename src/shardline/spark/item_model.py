"""The option `model`: a class of the user's code that declares the items of a table."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from shardline.errors import ConfigurationError

if TYPE_CHECKING:
    from shardline.tables.models import Model


def model_named(path: str) -> type[Model]:
    """Return the model at a path such as `app.models:User`, or raise in one line."""
    from shardline.tables.models import Model

    module_name, _, name = (part.strip() for part in path.partition(":"))
    if not module_name or not name:
        raise ConfigurationError(
            f"{path!r} names no class: write module:Class, as in app.models:User"
        )
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        raise ConfigurationError(
            f"{module_name} cannot be imported where the source runs ({error!r:.120}): install it, "
            "put it on PYTHONPATH, or add it with spark.addArtifacts or --py-files"
        ) from None
    model = getattr(module, name, None)
    if not isinstance(model, type) or not issubclass(model, Model):
        raise ConfigurationError(f"{path!r} is no shardline.Model")
    return model
