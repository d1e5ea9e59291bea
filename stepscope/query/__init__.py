"""Read-only SQL over what runs hold."""

from stepscope.query.database import QueryError, QueryResult, query_runs

__all__ = ["QueryError", "QueryResult", "query_runs"]
