"""The benchmark that asks the GPU's counters, as far as it goes without a GPU."""

from benchmarks.gpu.profiled import METRICS, read

HEAD = ["==PROF== done", ",".join(f'"{name}"' for name in ("ID", *METRICS.values()))]


def test_rows_are_read_by_name_and_in_microseconds():
    lines = [*HEAD, '"","ms","inst","%","%","%","","","",""']
    lines += ['"0","2.96","569,622,528","18","92","8","688,990,968","3","2","1"']
    lines += ['"1","0.5","7","22","59","47","9","6","5","4"']
    one, other = read("\n".join(lines))
    assert one["us"] == 2960 and one["instructions"] == 569_622_528
    assert (one["computing"], one["shared_memory"], one["large_memory"]) == (18, 92, 8)
    assert one["l1_cycles"] == 688_990_968
    assert other["us"] == 500 and other["large_memory"] == 47
    counts = "shared_cycles", "conflict_cycles", "shuffles"
    assert [other[name] for name in counts] == [6, 5, 4]


def test_another_unit_is_another_number_of_microseconds():
    lines = [*HEAD, '"","us","inst","%","%","%","","","",""']
    lines.append('"0","480","1","1","1","1","1","1","1","1"')
    assert read("\n".join(lines))[0]["us"] == 480
