"""Ctrl-C that is put off."""

import signal
import threading
from collections.abc import Iterator

import pytest

from barca.exec.interrupts import put_off


@pytest.fixture(autouse=True)
def default_handler() -> Iterator[None]:
    # a shell that runs tests in the background ignores the signal for them
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def press_ctrl_c() -> None:
    signal.raise_signal(signal.SIGINT)


def test_the_block_is_done_whole_and_then_ended() -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), put_off():
        with put_off():
            press_ctrl_c()
            done.append("inner")
        done.append("outer")
    assert done == ["inner", "outer"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_without_ctrl_c_nothing_is_raised() -> None:
    with put_off():
        pass
    with pytest.raises(KeyboardInterrupt):
        press_ctrl_c()


def test_a_second_one_ends_the_block() -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), put_off():
        press_ctrl_c()
        done.append("once")
        press_ctrl_c()
        done.append("twice")
    assert done == ["once"]


def test_an_error_of_the_block_is_told_all_the_same() -> None:
    with pytest.raises(ZeroDivisionError), put_off():
        press_ctrl_c()
        _ = 1 / 0
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_handler_of_the_program_is_left_alone() -> None:
    heard = []
    signal.signal(signal.SIGINT, lambda *_: heard.append("at once"))
    with put_off():
        press_ctrl_c()
        assert heard == ["at once"]


def test_other_threads_go_on() -> None:
    done = []

    def work() -> None:
        with put_off():
            done.append("work")

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == ["work"]
