"""Balancing in a plain PyTorch loop, beside the same training written out by hand."""

import json
import math
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import multiprocessing
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

from evenglot.balance import UnservedError, create
from evenglot.batches.draw import draw
from evenglot.integrations.torch import BalancedBatchSampler, GroupLoss
from evenglot.robust.validate import OptionError
from tests.integrations.task import GROUPS, NAMES, SIZES, Examples, Loop, losses_of, new_model

MOVING = {"chi-ibr": {"rho": 0.3, "noise": "ignore"}, "group-dro": {"step": 0.5}, "cvar-pd": {"alpha": 0.6}}


def by_hand(strategy, updates, size=16, interval_updates=10, seed=5):
    """The training of `Loop`, without our integration: draw, slice, weight, sum by group, observe, update."""
    balancer, examples = create(strategy, sizes=SIZES, **MOVING[strategy]), Examples()
    members = {name: np.flatnonzero(np.array(GROUPS) == name) for name in SIZES}
    model, drawn = new_model(), dict.fromkeys(SIZES, 0)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for interval in range(math.ceil(updates / interval_updates)):
        shares = balancer.mixture.sample
        count = size * interval_updates
        rows = draw(SIZES, shares, seed=seed, interval=interval, drawn_before=drawn, rule="exact", pairs=count)
        indices = rows.take(lambda name, pairs: members[name][pairs])
        for update in range(interval_updates):
            batch = [examples[i] for i in indices[update * size : (update + 1) * size]]
            inputs, labels = (torch.stack([each[key] for each in batch]) for key in ("input", "label"))
            losses = losses_of(model, {"input": inputs, "label": labels})
            weights = balancer.mixture.loss
            each_weight = [1.0 if weights is None else weights[each["group"]] for each in batch]
            ((losses * torch.tensor(each_weight, dtype=torch.float64)).sum() / size).backward()
            optimizer.step()
            optimizer.zero_grad()
            sums, counts = Counter(), Counter()
            for each, loss in zip(batch, losses.tolist(), strict=True):
                sums[each["group"]] += loss
                counts[each["group"]] += 1
            balancer.observe(sums, counts)
        drawn = {name: drawn[name] + rows.counts[name] for name in SIZES}
        if (interval + 1) * interval_updates < updates:
            balancer.update(rows.counts)
    return torch.cat([weight.detach().flatten() for weight in model.parameters()]), balancer.q


@pytest.mark.parametrize("strategy", MOVING)
def test_it_trains_as_the_loop_written_out_by_hand(strategy):
    loop = Loop(strategy, MOVING[strategy]).run(60)
    weights, q = by_hand(strategy, 60)
    assert torch.equal(loop.weights, weights)
    assert loop.balancer.q == q
    assert max(abs(q[name] - create("proportional", SIZES).q[name]) for name in q) > 0.05, "the mixture moved"


# -------------------------------------------------------------------------------------------------------------- batches


def test_the_examples_of_an_update_do_not_depend_on_accumulation_or_ranks():
    def updates(batch_size, accumulate, world):
        balancers = [create("temperature", sizes=SIZES, tau=2) for _ in range(world)]
        ranks = [
            list(BalancedBatchSampler(GROUPS, each, batch_size, accumulate=accumulate, rank=rank, world=world))
            for rank, each in enumerate(balancers)
        ]
        assert len({len(batches) for batches in ranks}) == 1
        whole = []
        for update in range(len(ranks[0]) // accumulate):
            parts = [batches[update * accumulate + k] for k in range(accumulate) for batches in ranks]
            assert all(len(part) == batch_size for part in parts)
            whole.append([index for part in parts for index in part])
        return whole

    expected = updates(32, 1, 1)
    assert len(expected) == 320 / 32
    for division in ((16, 2, 1), (8, 4, 1), (16, 1, 2), (8, 2, 2), (4, 2, 4)):
        assert updates(*division) == expected, division


def test_a_mixture_lasts_a_number_of_updates_not_an_epoch():
    loop = Loop(options=MOVING["chi-ibr"]).run(100)  # 20 updates have as many examples as the data
    assert len(loop.sampler) == 20
    assert loop.balancer.intervals == 9
    changes = [update for update in range(1, 100) if loop.mixtures[update] != loop.mixtures[update - 1]]
    assert changes == [10 * k for k in range(1, 10)]  # the mixture of update 10 k is that of the interval it begins


def test_a_mixture_that_changes_at_every_update_is_not_sampled_much_later():
    options = {"step": 0.5, "apply": "resample"}
    with pytest.raises(OptionError) as refused:
        Loop("group-dro", options, interval_updates=1001)
    assert refused.value.option == "interval_updates"
    assert Loop("group-dro", interval_updates=1001).balancer.needs.loss_weights, "which weights follow at once"
    loop = Loop("group-dro", options, interval_updates=4).run(12)
    drawn = [Counter(GROUPS[i] for batch in loop.served[k : k + 4] for i in batch) for k in (0, 4, 8)]
    for k in (1, 2):  # the mixture after the last update of an interval is sampled in the next one
        assert {name: drawn[k][name] / 64 for name in NAMES} == pytest.approx(loop.mixtures[4 * k - 1], abs=1 / 64)


def test_every_example_is_served_before_any_is_repeated():
    loop = Loop("mix", {"alpha": 0.7}).run(60)
    served = Counter(index for batch in loop.served for index in batch)
    for name in NAMES:
        passes = [served[index] for index, group in enumerate(GROUPS) if group == name]
        assert max(passes) - min(passes) <= 1
    drawn = Counter(GROUPS[index] for batch in loop.served for index in batch)
    assert {name: drawn[name] / 960 for name in NAMES} == pytest.approx(loop.balancer.q, abs=0.01)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.integers(1, 60), min_size=30, max_size=200),
    st.integers(60, 300),
    st.integers(1, 3),
    st.integers(1, 2),
    st.integers(0, 9),
)
def test_batches_by_tokens_keep_the_budget_and_come_in_whole_updates(lengths, tokens, accumulate, world, seed):
    groups = ["a" if k % 3 else "b" for k in range(len(lengths))]
    served = Counter()
    counts = set()
    for rank in range(world):
        sampler = BalancedBatchSampler(
            groups,
            create("proportional", sizes=Counter(groups)),
            lengths=lengths,
            tokens=tokens,
            accumulate=accumulate,
            rank=rank,
            world=world,
            seed=seed,
            interval_updates=4,
        )
        batches = list(sampler)
        counts.add(len(batches))
        assert len(batches) == len(sampler)
        assert all(batch and len(batch) * max(lengths[i] for i in batch) <= tokens for batch in batches)
        served.update(index for batch in batches for index in batch)
    assert len(counts) == 1, "all ranks have as many batches"
    assert set(served) <= set(range(len(lengths)))


def test_source_and_target_may_have_lengths_of_their_own():
    lengths = np.stack([np.arange(320) % 7 + 1, np.arange(320) % 11 + 1], axis=1)
    sampler = BalancedBatchSampler(GROUPS, create("proportional", sizes=SIZES), lengths=lengths, tokens=100)
    assert all(len(batch) * lengths[batch].max() <= 100 for batch in sampler)


@pytest.mark.parametrize("make", [list, tuple, np.array, lambda names: np.array(names, dtype=object)])
def test_groups_may_be_any_sequence_however_long(make, monkeypatch):
    expected = {name: [k for k, group in enumerate(GROUPS) if group == name] for name in NAMES}
    for block in (1, 7, 320, 1000):
        monkeypatch.setattr("evenglot.integrations.updates.BLOCK", block)
        sampler = BalancedBatchSampler(make(GROUPS), create("proportional", sizes=SIZES))
        assert {name: rows.tolist() for name, rows in sampler.updates.members.items()} == expected
    numbers = BalancedBatchSampler(np.array([7, 8, 8]), create("proportional", sizes={"7": 1, "8": 2}))
    assert numbers.updates.members["8"].tolist() == [1, 2]


# --------------------------------------------------------------------------------------------------- resume and workers


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("stop", [7, 19, 20, 33])
def test_a_restored_loop_ends_with_the_same_bits(stop, workers):
    options = {"options": MOVING["chi-ibr"], "workers": workers}
    whole = Loop(**options).run(45)
    part = Loop(**options).run(stop)
    rest = Loop(**options).restored(part.saved()).run(45)
    assert torch.equal(rest.weights, whole.weights)
    assert part.served[:stop] + rest.served == whole.served
    assert rest.balancer.state_dict() == whole.balancer.state_dict()


@pytest.mark.parametrize("workers", [0, 2])
def test_a_restored_loop_with_batches_by_tokens_ends_with_the_same_bits(workers):
    """In mid-interval, in mid-epoch; the number of batches of an interval changes with the mixture."""
    lengths = np.where(np.array(GROUPS) == "big", 2, 9) + np.arange(320) % 3
    options = {"options": MOVING["chi-ibr"], "workers": workers, "batch_size": None, "lengths": lengths, "tokens": 60}
    whole = Loop(**options).run(70)
    assert len({len(batch) for batch in whole.served}) > 3
    for stop in (13, 41):
        part = Loop(**options).run(stop)
        rest = Loop(**options).restored(part.saved()).run(70)
        assert torch.equal(rest.weights, whole.weights)
        assert part.served[:stop] + rest.served == whole.served
        assert rest.sampler.state_dict() == whole.sampler.state_dict()


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 60), st.integers(0, 8), st.sampled_from([1, 3, 10]))
def test_reading_ahead_changes_nothing_on_resume(stop, ahead, interval_updates):
    """A loader that has asked for `ahead` batches more than were trained, as one with workers has."""

    def sampler():
        balancer = create("chi-ibr", sizes=SIZES, **MOVING["chi-ibr"])
        return BalancedBatchSampler(GROUPS, balancer, 16, interval_updates)

    def train(each, start, end):
        served, asked = {}, start
        for update in range(start, end):
            while asked <= update + ahead:
                served[asked] = each.updates.micro_batches_of(asked)[0].tolist()
                asked += 1
            groups = Counter(GROUPS[i] for i in served[update])
            each.step({name: (update % 7 + len(name + "x" * count)) * count for name, count in groups.items()}, groups)
        return [served[update] for update in range(start, end)]

    whole = sampler()
    expected = train(whole, 0, 80)
    first = sampler()
    begun = train(first, 0, stop)
    second = sampler()
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert begun + train(second, stop, 80) == expected
    assert second.state_dict() == whole.state_dict()


def test_workers_that_persist_serve_the_same_batches():
    def served(**options):
        sampler = BalancedBatchSampler(GROUPS, create("temperature", sizes=SIZES, tau=2), 16)
        loader = DataLoader(Examples(), batch_sampler=sampler, **options)
        epochs = []
        for _ in range(3):
            for batch in loader:
                epochs.append(batch["index"].tolist())
                sampler.step()
        return epochs

    forked = {"num_workers": 2, "multiprocessing_context": "fork"}
    assert served(persistent_workers=True, **forked) == served(**forked) == served()


def test_an_epoch_that_is_left_early_goes_on_unless_another_one_begins():
    sampler = BalancedBatchSampler(GROUPS, create("proportional", sizes=SIZES), 16)
    batches = iter(sampler)
    first = [next(batches)]
    sampler.step()
    assert len(list(sampler)) == 19
    sampler.begin_epoch()
    assert len(list(sampler)) == 20
    sampler.begin_epoch(5)
    later = list(sampler)
    assert len(later) == 5
    assert later[0] != first[0], "it continues after the update that is done"
    other = BalancedBatchSampler(GROUPS, create("proportional", sizes=SIZES), 16)
    other.load_state_dict(json.loads(json.dumps(sampler.state_dict())))
    assert list(other)[:5] == later


def test_a_state_may_be_resumed_with_another_division_into_batches():
    options = {"options": MOVING["chi-ibr"]}
    whole = Loop(**options).run(40)
    part = Loop(**options).run(15)
    rest = Loop(**options, batch_size=4, accumulate=4).restored(part.saved()).run(40)
    torch.testing.assert_close(rest.weights, whole.weights, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "spoil", [lambda s: s.pop("updates"), lambda s: s.update(updates=-1), lambda s: s.pop("balancer")]
)
def test_a_bad_state_is_refused(spoil):
    loop = Loop().run(3)
    state = loop.sampler.state_dict()
    spoil(state)
    with pytest.raises(OptionError):
        loop.sampler.load_state_dict(state)


# ------------------------------------------------------------------------------------------------------------ processes


def _process(rank, folder, world, strategy, result):
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", f"file://{folder}/{world}", rank=rank, world_size=world)

    def loop():
        return Loop(strategy, MOVING[strategy], batch_size=16 // world, wrap=DistributedDataParallel)

    whole, part = loop().run(30), loop().run(13)
    rest = loop().restored(part.saved()).run(30)
    if rank == 0:
        weights, q = [whole.weights, rest.weights], [whole.balancer.q, rest.balancer.q]
        torch.save({"weights": weights, "q": q, "served": [part.served + rest.served, whole.served]}, result)
    torch.distributed.destroy_process_group()


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["chi-ibr", "group-dro"])
def test_two_processes_train_as_one_and_resume_with_the_same_bits(strategy, tmp_path):
    alone = Loop(strategy, MOVING[strategy]).run(30)
    result = tmp_path / "two.pt"
    multiprocessing.spawn(_process, (str(tmp_path), 2, strategy, str(result)), nprocs=2)
    two = torch.load(result, weights_only=True)
    torch.testing.assert_close(two["weights"][0], alone.weights, rtol=1e-9, atol=1e-11)
    assert two["q"][0] == pytest.approx(alone.balancer.q, abs=1e-9)
    assert torch.equal(*two["weights"])
    assert two["q"][0] == two["q"][1]
    assert two["served"][0] == two["served"][1]


# --------------------------------------------------------------------------------------------------------------- losses


def group_loss(strategy="chi-ibr", **options):
    balancer = create(strategy, sizes=SIZES, **options)
    return GroupLoss(BalancedBatchSampler(GROUPS, balancer, 4))


def test_losses_of_tokens_are_summed_by_group_and_averaged_over_those_that_count():
    losses = torch.tensor([[1.0, 2.0, math.inf], [3.0, 4.0, 5.0], [6.0, 0.5, 0.5]], requires_grad=True)
    mask = torch.tensor([[True, True, False], [True, True, True], [True, False, False]])
    each = group_loss()
    loss = each(losses, ["low", "big", "low"], mask)
    loss.backward()
    assert loss.item() == pytest.approx((1 + 2 + 12 + 6) / 6)
    assert torch.equal(losses.grad, mask / 6)
    assert each.step() == pytest.approx({"low": 3.0, "big": 4.0})
    assert each(losses, torch.tensor([1, 0, 1]), mask).item() == loss.item(), "ids are positions in `names`"


def test_losses_of_few_bits_are_summed_with_more():
    """In bfloat16, 1001 is 1000, and a sum has two or three digits."""
    losses = torch.rand(1001, generator=torch.Generator().manual_seed(1)).bfloat16()
    mean = losses.double().mean().item()
    each = group_loss()
    assert each(losses, ["big"] * 1001).item() == pytest.approx(mean, rel=1e-6)
    assert each.step() == pytest.approx({"big": mean}, rel=1e-12)


def test_a_batch_in_which_nothing_counts_has_the_loss_0():
    losses = torch.rand(2, 3, requires_grad=True)
    each = group_loss()
    loss = each(losses, ["big", "low"], torch.zeros(2, 3, dtype=torch.bool))
    loss.backward()
    assert loss.item() == 0
    assert not losses.grad.any()
    assert each.step() == {}


def test_all_losses_of_a_sampler_share_what_was_recorded():
    sampler = BalancedBatchSampler(GROUPS, create("chi-ibr", sizes=SIZES), 4)
    GroupLoss(sampler)(torch.tensor([1.0, 3.0]), ["big", "low"])
    assert GroupLoss(sampler).step() == {"big": 1.0, "low": 3.0}


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 7), min_size=1, max_size=5), st.integers(0, 1 << 20))
def test_the_gradient_factor_makes_a_mean_of_batch_means_that_of_the_update(sizes, seed):
    """What a trainer does that divides the loss of each of the batches by their number."""
    sampler = BalancedBatchSampler(GROUPS, create("chi-ibr", sizes=SIZES), 4, accumulate=len(sizes))
    sampler.recorded.factor_follows = True
    each, chance = GroupLoss(sampler), torch.Generator().manual_seed(seed)
    weight = torch.ones((), dtype=torch.float64, requires_grad=True)
    losses = [torch.rand(size, generator=chance, dtype=torch.float64) for size in sizes]
    for part in losses:
        (each(weight * part, ["big"] * len(part)) / len(sizes)).backward()
    assert weight.grad.item() * each.gradient_factor() == pytest.approx(torch.cat(losses).mean().item())
    each.step()
    assert each.gradient_factor() == 1


def test_parts_of_an_update_add_up_to_its_mean():
    losses, names = torch.rand(8), ["big", "mid"] * 4
    sampler = BalancedBatchSampler(GROUPS, create("group-dro", sizes=SIZES), 4, accumulate=2)
    parts, whole = GroupLoss(sampler), group_loss("group-dro")
    loss = sum(parts(losses[k : k + 4], names[k : k + 4], items=8) for k in (0, 4))
    assert loss.item() == pytest.approx(whole(losses, names).item())
    assert parts.step() == pytest.approx(whole.step())


def test_strategies_that_weight_examples_are_served():
    losses = torch.tensor([0.1, 0.2, 5.0, 0.3], requires_grad=True)
    each = group_loss("fastdro")
    each(losses, ["big", "mid", "low", "big"]).backward()
    assert losses.grad.sum().item() == pytest.approx(1)
    assert losses.grad.argmax() == 2
    with pytest.raises(OptionError, match="^balancer: fastdro"):
        GroupLoss(BalancedBatchSampler(GROUPS, create("fastdro", sizes=SIZES), 4, accumulate=2))


def test_validation_losses_steer_if_the_strategy_asks_for_them():
    each = group_loss("chi-ibr", signal="valid", rho=0.2)
    each.validation(torch.tensor([1.0, 1.0, 4.0]), ["big", "mid", "low"])
    assert each.end_validation() == {"big": 1.0, "low": 4.0, "mid": 1.0}
    before = each.balancer.q
    each.balancer.update()
    assert each.balancer.q["low"] > 2 * before["low"]


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        ((torch.rand(2, 2, 2), ["big", "mid"]), "losses"),
        ((torch.rand(2), ["big", "huge"]), "groups"),
        ((torch.rand(2), ["big"]), "groups"),
        ((torch.rand(2), torch.tensor([0, 3])), "groups"),
        ((torch.rand(2, 3), ["big", "mid"], torch.ones(2)), "mask"),
    ],
)
def test_bad_losses_are_refused(arguments, option):
    with pytest.raises(OptionError) as refused:
        group_loss()(*arguments)
    assert refused.value.option == option


# ---------------------------------------------------------------------------------------------------- unserved, refused


def test_a_loop_that_never_reports_a_step_is_told_so():
    sampler = BalancedBatchSampler(GROUPS, create("chi-ibr", sizes=SIZES), 16)
    batches = [list(sampler) for _ in range(10)]
    with pytest.raises(OptionError, match="^balancer: chi-ibr"):
        batches.append(list(sampler))
    fixed = BalancedBatchSampler(GROUPS, create("temperature", sizes=SIZES, tau=2), 16)
    epochs = [list(fixed) for _ in range(20)]
    assert epochs[0] != epochs[1], "without reports, it continues after the last batch"


def test_a_loop_that_reports_steps_without_losses_is_told_so():
    each = group_loss()
    with pytest.raises(OptionError, match="^balancer: chi-ibr"):
        each.step()
    assert group_loss("temperature", tau=5).step() == {}, "which needs none"


def test_a_validation_without_losses_is_none():
    each = group_loss("chi-ibr", signal="valid")
    assert each.end_validation() == {}
    with pytest.raises(UnservedError):
        each.balancer.update()


def test_losses_per_character_are_refused():
    with pytest.raises(OptionError, match="^balancer"):
        group_loss("chi-ibr", loss_per="character")


def test_a_stream_has_no_examples_to_choose_from():
    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter(Examples())

    with pytest.raises(ValueError, match="batch_sampler"):
        DataLoader(Stream(), batch_sampler=BalancedBatchSampler(GROUPS, create("uniform", sizes=SIZES)))


@pytest.mark.parametrize(("strategy", "options"), [("multidds", {}), ("chi-ibr", {"signal": "valid"})])
def test_a_strategy_whose_needs_this_loop_does_not_serve_raises(strategy, options):
    with pytest.raises(UnservedError):
        Loop(strategy, options).run(101)


@pytest.mark.parametrize(
    ("groups", "options", "option"),
    [
        (["big", "huge"], {}, "groups"),
        (["big", "mid"], {}, "groups"),
        (np.array([["big", "mid", "low"]]), {}, "groups"),
        ([], {}, "groups"),
        (GROUPS, {"batch_size": 0}, "batch_size"),
        (GROUPS, {"batch_size": 4, "tokens": 100, "lengths": [1] * 320}, "batch_size"),
        (GROUPS, {"tokens": 100}, "batch_size"),
        (GROUPS, {"tokens": 100, "lengths": [1] * 319}, "lengths"),
        (GROUPS, {"tokens": 100, "lengths": [0] * 320}, "lengths"),
        (GROUPS, {"interval_updates": 0}, "interval_updates"),
        (GROUPS, {"accumulate": 0}, "accumulate"),
        (GROUPS, {"rank": 2, "world": 2}, "rank"),
        (GROUPS, {"seed": -1}, "seed"),
    ],
)
def test_bad_settings_are_refused(groups, options, option):
    with pytest.raises(OptionError) as refused:
        BalancedBatchSampler(groups, create("proportional", sizes=SIZES), **options)
    assert refused.value.option == option
