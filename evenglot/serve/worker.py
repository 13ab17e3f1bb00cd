"""A single thread owns the model and translates waiting requests in batches."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import islice

from evenglot.directions import Direction
from evenglot.inference.engines import SearchOptions
from evenglot.inference.translate import Translation, TranslationWarning, Translator
from evenglot.serve.messages import Limits

log = logging.getLogger(__name__)


@dataclass
class Job:
    """A request in progress: `answer` completes when all sentences are translated, or is cancelled by the client."""

    sentences: Sequence[str]
    direction: Direction
    options: SearchOptions
    answer: Future[list[list[Translation]]] = field(default_factory=Future)
    translations: list[list[Translation]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def add(self, translations: list[Translation]) -> None:
        """Add the translations of the next sentence."""
        self.translations.append(translations)
        if len(self.translations) == len(self.sentences) and self.answer.set_running_or_notify_cancel():
            self.answer.set_result(self.translations)

    def fail(self, error: Exception) -> None:
        """Finish the job with an error."""
        if not self.answer.done() and self.answer.set_running_or_notify_cancel():
            self.answer.set_exception(error)


class Worker:
    """Translates waiting requests: the oldest first, batched with others of the same direction and options.

    A long request is split into several batches, so that it can be cancelled in between and short ones can join.
    """

    def __init__(self, translator: Translator, limits: Limits) -> None:
        self._translator, self._limits = translator, limits
        self._waiting: list[Job] = []
        self._changed = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._work, name="translator", daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether it still translates."""
        return self._thread.is_alive() and not self._closing

    def submit(self, job: Job) -> None:
        """Queue a request with at least one sentence."""
        with self._changed:
            self._waiting.append(job)
            self._changed.notify()

    def close(self) -> None:
        """Finish the current batch and stop."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()

    def _work(self) -> None:
        while batch := self._next_batch():
            try:
                self._translate(batch)
            except Exception as error:
                log.exception("a batch of %d sentences could not be translated", len(batch))
                for job, _ in batch:
                    job.fail(error)

    def _next_batch(self) -> list[tuple[Job, int]]:
        """Requests and indices of their sentences; empty when closing."""
        with self._changed:
            self._waiting = [job for job in self._waiting if not job.answer.done()]
            self._changed.wait_for(lambda: self._waiting or self._closing)
            return [] if self._closing else list(self._fitting(self._waiting))

    def _fitting(self, jobs: list[Job]) -> Iterator[tuple[Job, int]]:
        """As many sentences as fit into a batch, at least one."""
        wanted = (jobs[0].direction, jobs[0].options)
        alike = (job for job in jobs if (job.direction, job.options) == wanted)
        items = ((job, number) for job in alike for number in range(len(job.translations), len(job.sentences)))
        characters = 0
        for place, (job, number) in enumerate(islice(items, self._limits.batch_sentences)):
            characters += len(job.sentences[number])
            if place and characters > self._limits.batch_characters:
                return
            yield job, number

    def _translate(self, batch: list[tuple[Job, int]]) -> None:
        def warn(warning: TranslationWarning) -> None:  # its line number counts within the batch
            job, number = batch[warning.line - 1]
            job.warnings.append(f"sentence {number + 1}: {warning.text}")

        sentences = [job.sentences[number] for job, number in batch]
        found = self._translator.stream(sentences, batch[0][0].direction, batch[0][0].options, warn)
        for (job, _), translations in zip(batch, found, strict=True):
            job.add(translations)
