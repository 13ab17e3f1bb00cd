"""Metrics in the text format of Prometheus, at /metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from evenglot.serve.messages import Model

BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)  # seconds of a translation request


class Metrics:
    """Counts requests by path and status, and the seconds of translations."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, int]] = Counter()
        self.sentences = 0
        self.seconds: list[int] = [0] * (len(BUCKETS) + 1)
        self.seconds_sum = 0.0

    def translated(self, sentences: int, seconds: float) -> None:
        """Count a translation request."""
        self.sentences += sentences
        self.seconds_sum += seconds
        self.seconds[next((i for i, bound in enumerate(BUCKETS) if seconds <= bound), len(BUCKETS))] += 1

    def text(self, model: Model, gauges: Mapping[str, float]) -> str:
        """The current values."""
        lines = [
            "# HELP evenglot_info The served model.",
            "# TYPE evenglot_info gauge",
            f'evenglot_info{{run="{_quoted(model.run)}",version="{_quoted(model.version)}",step="{model.step}"}} 1',
            "# HELP evenglot_requests_total Answered requests.",
            "# TYPE evenglot_requests_total counter",
        ]
        for (path, status), count in sorted(self.requests.items()):
            lines.append(f'evenglot_requests_total{{path="{path}",status="{status}"}} {count}')
        lines += [
            "# HELP evenglot_sentences_total Translated sentences.",
            "# TYPE evenglot_sentences_total counter",
            f"evenglot_sentences_total {self.sentences}",
            "# HELP evenglot_translate_seconds Seconds from the first byte of a body to the translation.",
            "# TYPE evenglot_translate_seconds histogram",
        ]
        total = 0
        for bound, count in zip([*map(str, BUCKETS), "+Inf"], self.seconds, strict=True):
            total += count
            lines.append(f'evenglot_translate_seconds_bucket{{le="{bound}"}} {total}')
        lines += [f"evenglot_translate_seconds_sum {self.seconds_sum:.6f}", f"evenglot_translate_seconds_count {total}"]
        for name, value in gauges.items():
            lines += [f"# TYPE evenglot_{name} gauge", f"evenglot_{name} {value:g}"]
        return "\n".join(lines) + "\n"


class Counted:
    """Counts the responses of an app. Paths that do not exist share one entry, or strangers could add any number."""

    def __init__(self, app: ASGIApp, metrics: Metrics, paths: frozenset[str]) -> None:
        self._app, self._metrics, self._paths = app, metrics, paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""

        async def send_counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                path = scope["path"] if scope["path"] in self._paths else "other"
                self._metrics.requests[path, message["status"]] += 1
            await send(message)

        await self._app(scope, receive, send_counted)


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
