"""Training tasks of Wang et al., "Learning with Adaptive Resource Allocation" (ICML 2024).

For `auctune timeshare run` each is a kind of job, such as `kind = "lara_tasks:vit"`, with this
folder's parent in PYTHONPATH. With the setting `data` a task trains on the published data set in
that folder, otherwise on synthetic data.
"""

from functools import partial

from lara_tasks.tasks import make_task

vit = partial(make_task, "vit")
lstm = partial(make_task, "lstm")
cnn = partial(make_task, "cnn")
resnet18 = partial(make_task, "resnet18")
resnet34 = partial(make_task, "resnet34")
dagger = partial(make_task, "dagger")
audio = partial(make_task, "audio")
nlp = partial(make_task, "nlp")
