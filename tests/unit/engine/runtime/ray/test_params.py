from dataclasses import replace

from auctune.engine.runtime.nodes import NodeSettings
from auctune.engine.runtime.ray.params import default_node_resource, resource_requirements


def test_what_a_node_takes_of_its_machine() -> None:
    mark = default_node_resource("alpha")
    assert mark == "auctune:alpha"
    on_cpu = NodeSettings("tiny", "cache", threads=3)
    assert resource_requirements(on_cpu, mark, own_gpu=True) == {"CPU": 3.0, mark: 0.001}
    on_gpu = NodeSettings("tiny", "cache", device="cuda")
    assert resource_requirements(on_gpu, "node:10.0.0.7", own_gpu=True) == {
        "GPU": 1.0,
        "node:10.0.0.7": 0.001,
    }
    assert resource_requirements(on_gpu, mark, own_gpu=False) == {mark: 0.001}
    several = replace(on_gpu, num_devices=4)
    assert resource_requirements(several, mark, own_gpu=True) == {"GPU": 4.0, mark: 0.001}
    several = replace(on_cpu, num_devices=2)
    assert resource_requirements(several, mark, own_gpu=True) == {"CPU": 6.0, mark: 0.001}
