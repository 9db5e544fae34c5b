"""The measure of memory: what is made counts while it lives; what was there, never."""

import torch

from minipaged.lab.measure.peak import peak_extra_bytes

MIB = 2**20
NUMBERS = MIB // 4  # of float32 in a MiB


def test_only_what_lives_at_once_counts():
    def one_after_another():
        for _ in range(5):
            torch.ones(NUMBERS)

    def all_together():
        return [torch.ones(NUMBERS) for _ in range(5)]

    assert peak_extra_bytes(one_after_another) in (MIB, 2 * MIB)  # the name is rebound
    assert peak_extra_bytes(all_together) == 5 * MIB


def test_what_was_there_before_and_its_views_cost_nothing():
    given = torch.ones(NUMBERS)
    assert peak_extra_bytes(lambda: given.view(2, -1)[0].add_(1)) == 0
    assert peak_extra_bytes(lambda: given.view(2, -1).flatten()) == 0
    assert peak_extra_bytes(lambda: torch.add(given, 1, out=given)) == 0
    assert peak_extra_bytes(lambda: given + 1) == MIB


def test_a_copy_inside_an_operation_is_seen():
    given = torch.ones(512, 512)
    assert peak_extra_bytes(lambda: given.t().reshape(-1)) == MIB


def test_inference_mode_changes_nothing():
    given = torch.ones(NUMBERS)
    with torch.inference_mode():
        assert peak_extra_bytes(lambda: given.exp().view(2, -1) + 1) == 2 * MIB


def test_what_is_made_before_is_not_counted_when_it_is_freed():
    held = [torch.ones(NUMBERS)]

    def frees_then_makes():
        held[0].add_(1)
        held.clear()
        return torch.ones(NUMBERS)

    assert peak_extra_bytes(frees_then_makes) == MIB
