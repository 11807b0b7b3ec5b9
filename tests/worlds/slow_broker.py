"""A broker that answers each question for topics when it is let to."""

from __future__ import annotations

import threading

from streamer.kafka.topics import Described, Topics


class SlowBroker:
    """An answer tells the topics as they were when the question was put."""

    def __init__(self) -> None:
        self.id = "first"
        self.put = 0
        self.fails = False
        self.begun = threading.Semaphore(0)
        self.goes_on = threading.Semaphore(0)

    def topics(self) -> Topics:
        self.put += 1
        now, fails = {"changes": Described(self.id, 4)}, self.fails
        self.begun.release()
        assert self.goes_on.acquire(timeout=10)
        if fails:
            raise TimeoutError
        return now

    def answers(self, questions: int = 1) -> None:
        for _ in range(questions):
            self.goes_on.release()
