"""Names that users choose from when a run is exported."""

from rephaze.store.export import FileFormat
from rephaze.store.tables import TableName

__all__ = ["FileFormat", "TableName"]
